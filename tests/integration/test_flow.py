"""Offsets in the handler's hands, and when records are handed out: marks, limits, delays, pauses."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import make, running, until_done
from tests.integration.app_process import AppRun
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


def events(caplog: pytest.LogCaptureFixture, name: str) -> list[logging.LogRecord]:
    return [record for record in caplog.records if record.__dict__.get("event") == name]


def test_open_records_pause_the_partition_until_they_are_marked(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100)
    calls: list[tuple[grete.Consumer, grete.Messages]] = []

    class Collecting(grete.Consumer):
        def consume(self) -> None:
            calls.append((self, self.messages))

    def handed_out() -> int:
        return sum(len(messages) for _, messages in calls)

    app = make(kafka, group)
    app.consumer(topic, offsets="manual", max_unmarked=20, max_messages=5)(Collecting)
    marked = position = 0
    with running(app):
        while marked < 100:
            eventually(partial(at_least, handed_out, min(100, marked + 20)), 30.0, "as many as may be open")
            assert handed_out() <= marked + 25, "and the batch that goes beyond"
            assert kafka.admin.committed(group).get((topic, 0), 0) <= marked
            fresh = calls[position:]
            # From this thread, long after the calls that brought them; the last ones first.
            for instance, messages in reversed(fresh):
                marked += instance.mark(messages)
            position += len(fresh)
        until_done(kafka, app, topic)
    assert marked == 100
    assert "max_unmarked" in "".join(record.getMessage() for record in events(caplog, "consumer.unmarked"))


def test_marks_of_a_tick_let_the_partition_go_on(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100)

    class Lazy(grete.Consumer):
        def initialize(self) -> None:
            self.last: grete.Message | None = None

        def consume(self) -> None:
            self.last = self.messages[-1]

        def tick(self) -> None:
            if self.last is not None:
                self.mark(self.last, through=True)

    app = make(kafka, group)
    app.consumer(topic, offsets="manual", max_unmarked=20, max_messages=5, tick="20ms")(Lazy)
    with running(app):
        until_done(kafka, app, topic)


def at_least(number: Callable[[], int], wanted: int) -> bool:
    return number() >= wanted


def test_at_most_once_does_nothing_again_after_a_kill(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    target = "tests.integration.apps.hanging:app"
    settings = {"HANGING_SERVERS": kafka.bootstrap_servers, "HANGING_TOPIC": topic, "HANGING_GROUP": group}
    with AppRun(target, tmp_path, settings | {"HANGING_AT": 52}) as first:
        for partition in range(2):
            first.until(partial(hangs, first, partition), 30.0, f"partition {partition} hangs")
        first.process.kill()
        first.wait(10.0)
    with AppRun(target, tmp_path, settings) as second:
        second.until(lambda: kafka.admin.lag(group, [topic]) == 0, 60.0, "all is committed")
        assert second.stop() == 0, second.output
    begun = Counter(
        (row["partition"], offset)
        for run in (first, second)
        for row in run.seen
        if row["event"] == "begin"
        for offset in row["offsets"]
    )
    assert set(begun.values()) == {1}, "nothing twice"
    # The batch that hung was begun; all behind it were processed by the second process.
    assert set(begun) == {(partition, offset) for partition in range(2) for offset in range(100)}


def hangs(run: AppRun, partition: int) -> bool:
    return any(row["partition"] == partition and 52 in row["offsets"] for row in run.seen if row["event"] == "begin")


def test_a_delay_holds_records_back_and_no_worker(kafka: KafkaCluster, topic: str, group: str) -> None:
    prompt, later = f"{topic}.prompt", f"{topic}.later"
    for name in (topic, prompt, later):
        kafka.create_topic(name)
    seen: list[tuple[str, int, int]] = []
    app = make(kafka, group, workers=1)

    def note(message: grete.Message) -> None:
        seen.append((message.topic, message.offset, time.time_ns() // 1_000_000 - message.timestamp))

    app.consumer(topic, delay="1500ms")(note)
    app.consumer(later, delay="1h")(note)
    app.consumer(prompt)(note)
    with running(app), producer(kafka.bootstrap_servers, linger_ms=0) as target:
        for _ in range(3):
            for name in (later, topic, prompt):
                target.produce_many(name, [b"x"] * 5, partition=0).wait(30)
            eventually(lambda: sum(name == prompt for name, _, _ in seen) % 5 == 0, 30.0, "the prompt ones")
        until_done(kafka, app, topic, prompt)
    late = [(offset, age) for name, offset, age in seen if name == topic]
    assert [offset for offset, _ in late] == list(range(15))
    assert min(age for _, age in late) >= 1500
    # The only worker had time for the others, beside records that are not due for an hour.
    assert [name for name, _, _ in seen].count(prompt) == 15
    assert later not in {name for name, _, _ in seen}


def test_old_records_are_left_out_and_counted(
    kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic)
    now = time.time_ns() // 1_000_000
    # Every third is two hours old.
    fill(kafka.bootstrap_servers, topic, 90, timestamp=lambda index: now - (index % 3 == 0) * 7_200_000)
    seen: list[int] = []
    app = make(kafka, group)
    app.consumer(topic, max_age="1h")(lambda messages: seen.extend(messages.offsets))
    with running(app):
        until_done(kafka, app, topic)
        assert app.statistics()["counts"]["expired"] == 30
    assert seen == [offset for offset in range(90) if offset % 3]
    assert events(caplog, "consumer.expired")


@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_no_more_records_than_the_rate_allows(kafka: KafkaCluster, topic: str, group: str, concurrency: Any) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 300, partitions=2, key=lambda index: b"%d" % (index % 10))
    times: list[float] = []
    app = make(kafka, group)
    began = time.monotonic()

    @app.consumer(topic, rate_limit="100/s", concurrency=concurrency)
    def note(message: grete.Message) -> None:
        times.append(time.monotonic())

    with running(app):
        until_done(kafka, app, topic)
    assert len(times) == 300
    # A hundred may come at once, the others at their rate. A thread that is late notes several together: the times are
    # compared with the start only, and not with each other.
    for number, at in enumerate(times):
        assert at - began >= (number - 100) / 100, f"record {number} after {at - began:.3f} s"


def test_a_pause_ends_on_resume(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 80, partitions=2)
    seen: Counter[int] = Counter()
    paused: list[grete.Consumer] = []
    ticks = threading.Semaphore(0)

    class Pausing(grete.Consumer):
        def consume(self) -> None:
            seen[self.partition] += len(self.messages)
            if self.partition == 0 and not paused:
                self.pause()
                paused.append(self)

        def tick(self) -> None:
            if self.partition == 0:
                ticks.release()

    app = make(kafka, group)
    app.consumer(topic, max_messages=10, tick="20ms")(Pausing)
    with running(app):
        eventually(lambda: seen[1] == 40, 30.0, "the other partition goes on")
        # The hook goes on, too: by then, records would have come.
        for _ in range(5):
            assert ticks.acquire(timeout=30)
        assert seen[0] == 10
        paused[0].resume()
        until_done(kafka, app, topic)
    assert seen == {0: 40, 1: 40}


def test_a_seek_forward_leaves_out_what_is_between(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 1000)
    seen: list[int] = []

    class Jumping(grete.Consumer):
        def consume(self) -> None:
            seen.extend(self.messages.offsets)
            if self.messages.first_offset == 0:
                self.seek(900)

    app = make(kafka, group)
    app.consumer(topic, max_messages=10)(Jumping)
    with running(app):
        until_done(kafka, app, topic)
    assert seen == [*range(10), *range(900, 1000)]
