"""How many coroutines run at once: as many as keys or records are in flight, whatever `workers` says."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, make, running, until_done
from tests.kafka import KafkaCluster, fill

pytestmark = pytest.mark.kafka

RECORDS = 1500


class Meeting:
    """Handlers that wait for each other: each returns when `wanted` have been inside at the same time."""

    def __init__(self, app: grete.App, wanted: int) -> None:
        self._app, self._wanted = app, wanted
        self._complete = asyncio.Event()
        self.inside = self.most = 0
        self.statistics: dict[str, Any] = {}

    async def attend(self) -> None:
        """Waits for the others, once."""
        self.inside += 1
        self.most = max(self.most, self.inside)
        if self.inside == self._wanted and not self._complete.is_set():
            self.statistics = self._app.statistics()
            self._complete.set()
        await self._complete.wait()
        self.inside -= 1


def filled(kafka: KafkaCluster, topic: str, count: int = RECORDS, partitions: int = 1, keys: int = RECORDS) -> str:
    """A topic whose records have `keys` keys in turn."""
    kafka.create_topic(topic, partitions=partitions)
    fill(kafka.bootstrap_servers, topic, count, partitions=partitions, key=lambda index: b"key-%d" % (index % keys))
    return topic


@pytest.mark.parametrize("concurrency", ["key", "unordered"])
def test_all_records_of_a_partition_run_at_once(kafka: KafkaCluster, topic: str, concurrency: Any) -> None:
    app = make(kafka, filled(kafka, topic), workers=1)
    meeting = Meeting(app, RECORDS)

    @app.consumer(topic, concurrency=concurrency)
    async def handler(_message: grete.Message) -> None:
        await meeting.attend()

    with running(app):
        until_done(kafka, app, topic)
        assert app.statistics()["counts"]["records"] == RECORDS
    (lane,) = meeting.statistics["lanes"]
    assert (lane["running"], meeting.statistics["loop_jobs"], lane["in_flight"]) == (RECORDS, RECORDS, RECORDS)
    assert meeting.statistics["busy"] == 0


@pytest.mark.parametrize("concurrency", ["key", "unordered"])
def test_no_more_records_than_max_in_flight_run(kafka: KafkaCluster, topic: str, concurrency: Any) -> None:
    app = make(kafka, filled(kafka, topic, 500), workers=1)
    meeting = Meeting(app, 50)

    @app.consumer(topic, concurrency=concurrency, max_in_flight=50)
    async def handler(_message: grete.Message) -> None:
        await meeting.attend()

    with running(app):
        until_done(kafka, app, topic)
    assert meeting.most == 50


@pytest.mark.parametrize("concurrency", ["partition", "key", "unordered"])
def test_no_more_calls_than_max_concurrency_run(kafka: KafkaCluster, topic: str, concurrency: Any) -> None:
    app = make(kafka, filled(kafka, topic, 200, partitions=4), workers=1)
    meeting = Meeting(app, 3)

    @app.consumer(topic, concurrency=concurrency, max_concurrency=3)
    async def handler(_message: grete.Message) -> None:
        await meeting.attend()

    with running(app):
        until_done(kafka, app, topic)
    assert meeting.most == 3
    assert sum(lane["running"] for lane in meeting.statistics["lanes"]) == 3


def test_threads_share_the_limit_of_their_route(kafka: KafkaCluster, topic: str) -> None:
    app = make(kafka, filled(kafka, topic, 300, partitions=4), workers=4)
    inside: list[int] = []
    most = 0

    @app.consumer(topic, max_concurrency=1)
    def handler(messages: grete.Messages) -> None:
        nonlocal most
        inside.append(messages.partition)
        most = max(most, len(inside))
        for message in messages:
            assert message.value
        inside.remove(messages.partition)

    with running(app):
        until_done(kafka, app, topic)
    assert most == 1


def test_a_key_keeps_its_order_while_others_pass_it(kafka: KafkaCluster, topic: str) -> None:
    app = make(kafka, filled(kafka, topic, 2000, keys=40))
    seen: dict[bytes | None, list[int]] = defaultdict(list)
    busy: set[bytes | None] = set()
    failed: set[int] = set()

    @app.consumer(topic, concurrency="key", max_messages=7, retry=FAST)
    async def handler(message: grete.Message) -> None:
        assert message.key not in busy
        busy.add(message.key)
        try:
            for _ in range(message.offset % 5):
                await asyncio.sleep(0)
            if message.offset % 97 == 0 and message.offset not in failed:
                failed.add(message.offset)
                raise ValueError(f"not yet: {message.offset}")
            seen[message.key].append(message.offset)
        finally:
            busy.remove(message.key)

    with running(app):
        until_done(kafka, app, topic)
    assert len(failed) == 21
    assert {key: offsets for key, offsets in seen.items() if offsets != sorted(set(offsets))} == {}
    assert sum(map(len, seen.values())) == 2000


@pytest.mark.parametrize("concurrency", ["key", "unordered"])
def test_an_instance_runs_one_job_and_is_used_again(kafka: KafkaCluster, topic: str, concurrency: Any) -> None:
    app = make(kafka, filled(kafka, topic, 600))
    meeting = Meeting(app, 20)
    made: list[grete.Consumer] = []

    @app.consumer(topic, concurrency=concurrency, max_in_flight=20, max_messages=1)
    class Orders(grete.Consumer):
        busy = False

        def initialize(self) -> None:
            made.append(self)

        async def consume(self) -> None:
            assert not self.busy
            self.busy = True
            messages = self.messages
            await meeting.attend()
            assert self.messages is messages
            self.busy = False

    with running(app):
        until_done(kafka, app, topic)
        assert app.statistics()["counts"]["failures"] == 0
    assert meeting.most == len(made) == 20
