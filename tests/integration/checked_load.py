"""A full load on clients, whose records are counted, and how long they take to their handler."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Self

import grete
from grete.client import Admin, Consumer, Deliveries, Producer

PARTITIONS = 4
# Records that are on their way at once: enough to keep brokers, client and handler busy, few enough that queues do not
# hide a delay of milliseconds.
WINDOW = 400
CHUNK = 20


class CheckedLoad:
    """An idempotent producer and an App under load, an admin client, and a consumer without records.

    Records are numbered, and handlers check each partition's order: nothing is missing, nothing comes twice.
    """

    def __init__(self, settings: Mapping[str, Any], name: str, **app: Any) -> None:
        self.sent = self.handled = self.calls = 0
        self.faults: list[str] = []
        # Whether calls of Admin may fail because of the login: unlike the other clients, they do not wait.
        self.lenient = False
        self.events: Counter[str] = Counter()
        self.lost: list[str] = []
        # Time from `produce` to the handler, in steps of 50 microseconds.
        self.delays: Counter[int] = Counter()
        self._topic, self._next = name, list(range(PARTITIONS))
        self._changed = threading.Condition()
        self._on = self._ended = False
        ours = {**settings, "auto.offset.reset": "earliest"}
        self.app = grete.App(name, kafka=ours, workers=2, **app)
        self.app.consumer(name)(self._handle)
        self.app.monitor.subscribe("group.joined")(lambda event: self.events.update([event.name]))
        self.app.monitor.subscribe("broker.disconnected")(lambda event: self.lost.append(event["reason"]))
        self.producer = Producer({**settings, "enable.idempotence": True, "linger.ms": 1})
        self.admin = Admin(dict(settings))
        self.idle = Consumer({**ours, "group.id": f"{name}-idle"})
        self.idle.subscribe([f"{name}-idle"])
        self._open: deque[Deliveries] = deque()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._produce, self._others)]

    def _handle(self, messages: grete.Messages) -> None:
        now = time.monotonic_ns()
        delays, count = self.delays, 0
        for message in messages:
            count += 1
            number, at = divmod(int(message.value or b"0"), 1 << 64)
            if number != self._next[message.partition]:
                self.faults.append(f"{number} instead of {self._next[message.partition]} on {message.partition}")
            self._next[message.partition] = number + PARTITIONS
            delays[(now - at) // 50_000] += 1
        with self._changed:
            self.handled += count
            self._changed.notify_all()

    def _produce(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or (self._on and self.sent - self.handled < WINDOW))
                    if self._ended:
                        return
                first = self.sent
                at = time.monotonic_ns()
                for partition in range(PARTITIONS):
                    numbers = range(first + partition, first + CHUNK * PARTITIONS, PARTITIONS)
                    values = [b"%d" % (number << 64 | at) for number in numbers]
                    self._open.append(self.producer.produce_many(self._topic, values, partition=partition))
                self.sent = first + CHUNK * PARTITIONS
                while self._open and self._open[0].done:
                    self._count()
        except BaseException as error:
            self.faults.append(repr(error))
            raise

    def _count(self) -> None:
        self.faults += [repr(error) for _, error in self._open.popleft().errors]

    def _others(self) -> None:
        try:
            while not self._ended:
                try:
                    assert self._topic in self.admin.topics(timeout=60)
                except grete.AuthenticationError:
                    if not self.lenient:
                        raise
                self.calls += 1
                if self.idle.poll(timeout=0.5):
                    self.faults.append("a record of nobody")
        except BaseException as error:
            self.faults.append(repr(error))
            raise

    def run(self, seconds: float) -> None:
        """Produces for so long, and waits until all records are handled."""
        with self.producing(), self._changed:
            self._changed.wait_for(lambda: self.faults, seconds)
        self.settle()

    @contextmanager
    def producing(self) -> Iterator[None]:
        """Produces as long as the `with` lasts."""
        self.switch(True)
        try:
            yield
        finally:
            self.switch(False)

    def settle(self) -> None:
        """Waits until all records are handled."""
        with self._changed:
            done = self._changed.wait_for(lambda: self.faults or (self.handled == self.sent > 0), 60.0)
        assert not self.faults, self.faults[:5]
        assert done, f"{self.handled} of {self.sent}; {self.app.statistics()}"

    def switch(self, on: bool) -> None:
        with self._changed:
            self._on = on
            self._changed.notify_all()

    def reconnects(self) -> dict[str, int]:
        """Connections that were lost, by client."""
        return {
            "producer": self.producer.statistics()["reconnects"],
            "idle": self.idle.statistics()["reconnects"],
            "app": len(self.lost),
        }

    def quantiles(self) -> dict[str, float]:
        """Delays in milliseconds."""
        total, found, passed = self.delays.total(), {}, 0
        wanted = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("max", 1.0)]
        for step in sorted(self.delays):
            passed += self.delays[step]
            while wanted and passed >= wanted[0][1] * total:
                found[wanted.pop(0)[0]] = step * 0.05
        return found

    def __enter__(self) -> Self:
        self.app.start()
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        for thread in self._threads:
            thread.join(60)
        try:
            self.app.stop()
            self.producer.close()
            while self._open:
                self._count()
        finally:
            self.idle.close()
            self.admin.close()
        if error[0] is None:
            assert not self.faults, self.faults[:5]
