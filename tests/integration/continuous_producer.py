"""A producer that goes on writing while a test does other things."""

from __future__ import annotations

import threading
from typing import Self

from confluent_kafka import KafkaError, Message, Producer

from tests.kafka.admin import QUIET
from tests.kafka.load import value_of


class SteadyProducer:
    """Writes to all partitions in turn, at a pace, on a thread of its own, until stopped."""

    def __init__(self, servers: str, topic: str, partitions: int, per_second: int) -> None:
        self.count = 0
        self._topic = topic
        self._partitions = partitions
        self._pause = 0.02
        self._burst = max(1, int(per_second * self._pause))
        settings = {"bootstrap.servers": servers, "enable.idempotence": True, "linger.ms": 5, **QUIET}
        self._producer = Producer({**settings, "queue.buffering.max.messages": 2_000_000})
        self._failures: list[KafkaError] = []
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="steady-producer")

    def _run(self) -> None:
        while not self._stop.wait(self._pause):
            for _ in range(self._burst):
                partition = self.count % self._partitions
                value = value_of(self.count, 100)
                self._producer.produce(self._topic, value, partition=partition, on_delivery=self._delivered)
                self.count += 1
            self._producer.poll(0)

    def _delivered(self, error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            self._failures.append(error)

    def finish(self, seconds: float = 60.0) -> dict[int, int]:
        """Stop, and wait for all acknowledgements; returns the end offset of each partition."""
        self._stop.set()
        self._thread.join()
        assert self._producer.flush(seconds) == 0
        assert not self._failures
        return {p: len(range(p, self.count, self._partitions)) for p in range(self._partitions)}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
