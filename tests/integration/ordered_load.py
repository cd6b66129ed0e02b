"""A load of numbered records whose every outcome is counted."""

from __future__ import annotations

import threading
from collections import Counter, deque
from typing import Self

import grete
from tests.kafka.load import value_of


class OrderedLoad:
    """Writes values 0, 1, 2 ... on a thread of its own, dealt out to the partitions in turn, as far as it is allowed.

    So record i must be at offset i // partitions of partition i % partitions, and be reported there. Chunks are
    written in turn by `produce_many`, a partition after the other, and by `produce`, a record after the other.
    """

    def __init__(self, producer: grete.client.Producer, topic: str, partitions: int, *, chunk: int = 500) -> None:
        self.outcomes: Counter[str] = Counter()
        self.errors: list[str] = []
        self.unknown_offsets = 0
        self.sent = 0
        self._producer = producer
        self._topic = topic
        self._partitions = partitions
        self._chunk = chunk * partitions
        self._size = 100
        self._allowed = 0
        self._finished = False
        self._open: deque[tuple[int, grete.client.Deliveries | list[grete.client.Delivery]]] = deque()
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._run, name="ordered-load", daemon=True)

    def allow(self, count: int) -> None:
        """Let it go on until so many records are written, in whole chunks."""
        with self._changed:
            self._allowed = count
            self._changed.notify_all()

    def wait_sent(self, count: int, seconds: float) -> None:
        """Until so many records were given to the producer."""
        self._wait(lambda: self.sent >= count, seconds, f"{count} records sent")

    def wait_settled(self, count: int, seconds: float) -> None:
        """Until so many records have an outcome."""
        self._wait(lambda: self.outcomes.total() >= count, seconds, f"{count} records settled")

    def _wait(self, condition: object, seconds: float, what: str) -> None:
        assert callable(condition)
        with self._changed:
            done = self._changed.wait_for(lambda: condition() or not self._thread.is_alive(), seconds)
            state = f"{self.sent} sent, {dict(self.outcomes)}, {self._producer.statistics()}"
            assert done, f"not within {seconds:g} s: {what}; {state}"
            assert condition(), f"the load has ended: {what}; {state} {self.errors[:3]}"

    def _run(self) -> None:
        try:
            while True:
                with self._changed:
                    self._changed.wait_for(lambda: self.sent < self._allowed or self._finished or self._open)
                    if self._finished and self.sent >= self._allowed and not self._open:
                        return
                    due = self.sent < self._allowed
                if due:
                    self._write(self.sent)
                # What is over is counted at once; when nothing is left to write, the rest is waited for.
                while self._open and (not due or self._is_done(self._open[0][1])):
                    self._count(*self._open.popleft())
        except BaseException as error:
            self.errors.append(repr(error))
            raise
        finally:
            with self._changed:
                self._changed.notify_all()

    def _write(self, first: int) -> None:
        last = first + self._chunk
        if (first // self._chunk) % 2:
            deliveries = [
                self._producer.produce(self._topic, value_of(index, self._size), partition=index % self._partitions)
                for index in range(first, last)
            ]
            self._open.append((first, deliveries))
        else:
            for partition in range(self._partitions):
                values = [value_of(i, self._size) for i in range(first + partition, last, self._partitions)]
                many = self._producer.produce_many(self._topic, values, partition=partition)
                self._open.append((first + partition, many))
        with self._changed:
            self.sent = last
            self._changed.notify_all()

    def _is_done(self, deliveries: grete.client.Deliveries | list[grete.client.Delivery]) -> bool:
        return all(row.done for row in deliveries) if isinstance(deliveries, list) else deliveries.done

    def _count(self, first: int, deliveries: grete.client.Deliveries | list[grete.client.Delivery]) -> None:
        step = 1 if isinstance(deliveries, list) else self._partitions
        found: Counter[str] = Counter()
        for at, row in enumerate(deliveries):
            try:
                row.wait(180.0)
            except grete.DeliveryError as error:
                self.errors.append(f"record {first + at * step}: {error}")
            assert row.outcome is not None
            found[row.outcome] += 1
            index = first + at * step
            if row.offset is None:
                self.unknown_offsets += 1
            elif row.offset != index // self._partitions or row.partition != index % self._partitions:
                self.errors.append(f"record {index} is said to be at {row.partition}/{row.offset}")
        with self._changed:
            self.outcomes += found
            self._changed.notify_all()

    def finish(self, seconds: float) -> int:
        """Wait for all outcomes; returns the number of records."""
        with self._changed:
            self._finished = True
            self._changed.notify_all()
        self._thread.join(seconds)
        assert not self._thread.is_alive(), f"{self.sent} sent, {dict(self.outcomes)} after {seconds:g} s"
        return self.sent

    def start(self) -> None:
        self._thread.start()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._finished = True
            self._allowed = min(self._allowed, self.sent)
            self._changed.notify_all()
        self._thread.join(200.0)
