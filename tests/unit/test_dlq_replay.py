"""One replay, with a consumer and a producer made up here: what is committed when something goes wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

import grete
from grete import _native
from grete._dlq import header_names
from grete._dlq.checkpoint import Checkpoint, CheckpointError, ReplayedOffsets, ReplayHistory
from grete._dlq.filter import DeadLetterFilter
from grete._dlq.reader import OffsetRange
from grete._dlq.replay import Replay, ReplayError
from tests.unit.record_batches import Record, batch

AT = ("orders.dlq", 0)


@dataclass
class FakeDelivery:
    """Under way until the producer is flushed or a caller waits."""

    value: bytes
    error: Exception | None = None
    done: bool = False

    def wait(self, timeout: float) -> None:
        self.done = True


@dataclass
class FakeProducer:
    """Has one partition in each topic but "missing"; values in `refused` fail; `flushing` is called in flushes."""

    refused: frozenset[bytes] = frozenset()
    flushing: Callable[[], None] = lambda: None
    sent: list[tuple[str, bytes, int | None]] = field(default_factory=list)
    under_way: list[FakeDelivery] = field(default_factory=list)

    def partitions(self, topic: str, timeout: float) -> int:
        if topic == "missing":
            raise grete.UnknownTopicError("no such topic", topic=topic)
        return 1

    def produce(self, topic: str, value: bytes, *, partition: int | None, **more: Any) -> FakeDelivery:
        self.sent.append((topic, value, partition))
        error = grete.DeliveryError("refused", topic=topic) if value in self.refused else None
        self.under_way.append(FakeDelivery(value, error))
        return self.under_way[-1]

    def flush(self, timeout: float) -> None:
        self.flushing()
        for delivery in self.under_way:
            delivery.done = True


@dataclass
class FakeConsumer:
    """Has ten dead letters, offsets 0 to 9, and what follows them up to offset 12 holds no record."""

    stored: dict[tuple[str, int], int] = field(default_factory=dict)
    error: Exception | None = None
    _at: int = 0

    def assign(self, partitions: list[tuple[str, int, int]]) -> None:
        self._at = partitions[0][2]

    def poll(self, timeout: float) -> grete.Messages:
        given = [(header_names.SOURCE_TOPIC, b"orders"), (header_names.SOURCE_PARTITION, b"0")]
        rows = [Record(at, b"%d" % at, None, 5, given) for at in range(self._at, min(self._at + 4, 10))]
        self._at = self._at + 4 if self._at + 4 < 10 else 12
        return _native._testing_decode(batch(rows), "orders.dlq", 0) if rows else grete.Messages.empty()

    def position(self, topic: str, partition: int) -> int:
        return self._at

    def committed(self, partitions: list[tuple[str, int]]) -> dict[tuple[str, int], int | None]:
        if self.error is not None:
            raise self.error
        return {at: self.stored.get(at) for at in partitions}

    def commit(self, offsets: dict[tuple[str, int], int]) -> None:
        self.stored.update(offsets)


@dataclass
class Stop:
    """Asked to end when so many records have been sent."""

    producer: FakeProducer
    after: int = 1000
    slept: list[float] = field(default_factory=list)

    @property
    def requested(self) -> bool:
        return len(self.producer.sent) >= self.after

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


def replay(consumer: Any, producer: Any, **more: Any) -> Replay:
    settings: dict[str, Any] = {
        "selection": DeadLetterFilter(),
        "history": ReplayHistory({}),
        "to": None,
        "rate_limiter": None,
    }
    bookmark = Checkpoint(
        consumer, "orders.dlq", "g", {partition: at for (_, partition), at in consumer.stored.items()}
    )
    return Replay(
        "orders.dlq",
        consumer,
        producer,
        bookmark,
        idle_timeout=5.0,
        on_progress=lambda run: None,
        **{**settings, **more},
    )


SPANS = [OffsetRange(0, 0, 12)]


def test_all_that_was_acknowledged_is_committed_up_to_the_end() -> None:
    consumer, producer = FakeConsumer(), FakeProducer()
    run = replay(consumer, producer)
    run.run(SPANS, Stop(producer))
    assert producer.sent == [("orders", b"%d" % at, 0) for at in range(10)]
    assert (run.replayed, consumer.stored) == (Counter(orders=10), {AT: 12})


def test_what_is_not_meant_or_was_sent_is_passed_by() -> None:
    consumer, producer = FakeConsumer(), FakeProducer()
    past = ReplayHistory({"other": ReplayedOffsets(DeadLetterFilter(), {0: 7})})
    run = replay(consumer, producer, history=past, to="elsewhere")
    run.run(SPANS, Stop(producer))
    assert producer.sent == [("elsewhere", b"%d" % at, None) for at in range(7, 10)]
    assert consumer.stored == {AT: 12}
    consumer, producer = FakeConsumer(), FakeProducer()
    replay(consumer, producer, selection=DeadLetterFilter(source="clicks")).run(SPANS, Stop(producer))
    assert (producer.sent, consumer.stored) == ([], {AT: 12})


def test_an_end_that_was_asked_for_waits_for_what_was_sent() -> None:
    consumer, producer = FakeConsumer(), FakeProducer()
    run = replay(consumer, producer)
    run.run([*SPANS, OffsetRange(1, 0, 5)], Stop(producer, after=6))
    assert (run.replayed.total(), run.pending, consumer.stored) == (6, 0, {AT: 6})


def test_a_failure_commits_what_lies_before_it_and_counts_what_lies_behind() -> None:
    consumer, producer = FakeConsumer(), FakeProducer(refused=frozenset([b"5"]))
    run = replay(consumer, producer)
    with pytest.raises(ReplayError, match=r"orders.dlq\[0\] offset 5 was not written to orders: refused"):
        run.run(SPANS, Stop(producer))
    assert consumer.stored == {AT: 5}
    assert run.replayed.total() == len(producer.sent) - 1


def test_a_second_interrupt_leaves_what_is_not_acknowledged_to_the_next_replay() -> None:
    consumer = FakeConsumer()

    def interrupt() -> None:
        producer.under_way[0].done = True
        raise KeyboardInterrupt

    producer = FakeProducer(flushing=interrupt)
    run = replay(consumer, producer)
    with pytest.raises(KeyboardInterrupt):
        run.run(SPANS, Stop(producer, after=3))
    assert run.pending == 3 - run.replayed.total()
    assert consumer.stored == {AT: 1}


def test_progress_of_another_process_is_neither_overwritten_nor_hidden() -> None:
    consumer, producer = FakeConsumer({AT: 0}), FakeProducer()
    run = replay(consumer, producer)
    consumer.stored[AT] = 9
    with pytest.raises(CheckpointError, match=r"was at offset 0 of orders.dlq\[0\] and is at 9 now"):
        run.run(SPANS, Stop(producer))
    assert consumer.stored == {AT: 9}


def test_progress_that_cannot_be_stored_does_not_hide_why_it_ended() -> None:
    consumer = FakeConsumer(error=grete.TimeoutError("no coordinator"))
    producer = FakeProducer(refused=frozenset([b"5"]))
    with pytest.raises(ReplayError, match="offset 5") as caught:
        replay(consumer, producer).run(SPANS, Stop(producer))
    assert "could not be stored: no coordinator" in caught.value.__notes__[0]


def test_a_missing_target_is_reported_with_its_remedy() -> None:
    consumer, producer = FakeConsumer(), FakeProducer()
    with pytest.raises(ReplayError, match="grete topics create missing"):
        replay(consumer, producer).check_targets(["orders", "missing"])


class EveryThird:
    """A pace that lets every third asking pass."""

    def __init__(self) -> None:
        self._asked = 0

    def acquire(self) -> float:
        self._asked += 1
        return 0.0 if self._asked % 3 == 0 else 10.0


def test_a_pace_is_waited_for_in_short_sleeps() -> None:
    consumer, producer = FakeConsumer(), FakeProducer()
    stop = Stop(producer)
    replay(consumer, producer, rate_limiter=EveryThird()).run(SPANS, stop)
    assert len(producer.sent) == 10
    assert stop.slept == [0.25] * 20
