"""An App inside of this very process, with records to work on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import grete
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


def make(kafka: KafkaCluster, group: str, handler: Callable[[grete.Messages], None], topic: str) -> grete.App:
    app = grete.App(
        group,
        # Nothing is committed by the clock: what is committed, the stop has committed.
        kafka={"bootstrap.servers": kafka.bootstrap_servers, "auto.commit.interval.ms": 3_600_000},
        workers=2,
        shutdown_timeout="20s",
    )
    app.consumer(topic)(handler)
    return app


def test_what_was_done_is_committed_when_stop_returns(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 1000, partitions=2)
    seen: list[int] = []
    app = make(kafka, topic, lambda messages: seen.append(len(messages)), topic)
    with app.running():
        eventually(lambda: sum(seen) == 1000, 60.0, "all records")
    assert kafka.admin.committed(topic) == {(topic, 0): 500, (topic, 1): 500}
    assert kafka.admin.members(topic) == {}
    # And again, with the same App.
    fill(kafka.bootstrap_servers, topic, 1000, partitions=2)
    app.start()
    eventually(lambda: sum(seen) == 2000, 60.0, "all new records")
    app.stop()
    assert kafka.admin.lag(topic, [topic]) == 0


@pytest.mark.own_process
def test_a_handler_that_does_not_return_is_named_and_the_process_goes_on(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 20, partitions=2)
    stuck, release, done = threading.Event(), threading.Event(), threading.Event()

    def handler(messages: grete.Messages) -> None:
        if messages.partition == 0:
            stuck.set()
            release.wait()
        else:
            done.set()

    app = make(kafka, topic, handler, topic)
    app.start()
    try:
        assert stuck.wait(60.0)
        assert done.wait(60.0)
        before = time.monotonic()
        with pytest.raises(grete.TimeoutError, match=rf"handler on {topic}\[0\]"):
            app.stop(timeout=2.0)
        assert 1.5 < time.monotonic() - before < 10.0
        assert "release.wait()" in caplog.text, "its stack is in the log"
        assert kafka.admin.committed(topic).get((topic, 1)) == 10, "what the other has done"
        assert kafka.admin.members(topic) == {}
        app.stop()
    finally:
        release.set()
    # What returns late has no say: its records come again.
    eventually(lambda: not any("grete-worker" in thread.name for thread in threading.enumerate()), 10.0, "its end")
    assert kafka.admin.committed(topic).get((topic, 0), 0) == 0
    done.clear()
    with app.running():
        eventually(lambda: app.statistics()["counts"]["records"] == 10, 60.0, "the records of the stuck one")
    assert kafka.admin.lag(topic, [topic]) == 0
    assert not done.is_set()


def test_a_handler_may_stop_its_app(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    stopped = threading.Event()

    def handler(_messages: grete.Messages) -> None:
        app.stop()  # returns at once: the stop waits for this handler
        stopped.set()

    app = make(kafka, topic, handler, topic)
    app.start()
    assert stopped.wait(60.0)
    app.stop()
    assert app.error is None
    assert kafka.admin.committed(topic) == {(topic, 0): 10}


def test_sys_exit_in_a_handler_ends_the_app_and_not_its_host(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)

    def handler(_messages: grete.Messages) -> None:
        raise SystemExit(3)

    app = make(kafka, topic, handler, topic)
    app.start()
    eventually(lambda: app.error, 60.0, "its end")
    assert isinstance(app.error, SystemExit)
    with pytest.raises(grete.GreteError, match="SystemExit in a handler"):
        app.stop()
    assert kafka.admin.committed(topic).get((topic, 0), 0) == 0


def test_quiet_lets_nothing_new_begin(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    seen: list[int] = []
    app = make(kafka, topic, lambda messages: seen.append(len(messages)), topic)
    with app.running():
        eventually(lambda: sum(seen) == 10, 60.0, "the first records")
        app.quiet()
        fill(kafka.bootstrap_servers, topic, 10)
        eventually(lambda: any(lane["queued_bytes"] for lane in app.statistics()["lanes"]), 30.0, "their arrival")
        assert sum(seen) == 10, "and no handler takes them"
        assert len(kafka.admin.members(topic)) == 1
    assert kafka.admin.committed(topic) == {(topic, 0): 10}


def test_in_a_coroutine_the_loop_goes_on_while_handlers_finish(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    begun, turned = threading.Event(), threading.Event()

    def handler(_messages: grete.Messages) -> None:
        begun.set()
        assert turned.wait(60.0), "only the loop can let it go on"

    async def serve() -> None:
        async with make(kafka, topic, handler, topic).running():
            await asyncio.to_thread(begun.wait, 60.0)
            asyncio.get_running_loop().call_later(0.5, turned.set)

    asyncio.run(serve())
    assert kafka.admin.committed(topic) == {(topic, 0): 10}


HOST = """
import threading, sys
import grete
app = grete.App({topic!r}, kafka={{"bootstrap.servers": {servers!r}}}, shutdown_timeout="2s")
stuck = threading.Event()
@app.consumer({topic!r})
def handler(messages):
    stuck.set()
    threading.Event().wait()
app.start()
stuck.wait()
{end}
print("the end of the host")
"""


@pytest.mark.parametrize("end", ["", "try: app.stop()\nexcept grete.TimeoutError: print('late')"])
def test_a_stuck_handler_does_not_keep_its_host_from_ending(
    kafka: KafkaCluster, topic: str, tmp_path: Path, end: str
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    script = HOST.format(topic=topic, servers=kafka.bootstrap_servers, end=end)
    done = subprocess.run([sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stdout.split("\n")[:-1] == (["late"] if end else []) + ["the end of the host"]
    assert "handler on" in done.stderr
    assert kafka.admin.members(topic) == {}


def test_who_takes_too_long_is_named_with_its_stack(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=1)
    fill(kafka.bootstrap_servers, topic, 10)
    release = threading.Event()

    def messages_by_event() -> dict[str, str]:
        return {getattr(record, "event", ""): record.getMessage() for record in caplog.records}

    app = grete.App(topic, kafka={"bootstrap.servers": kafka.bootstrap_servers}, stall_after="200ms")

    @app.consumer(topic, handler_timeout="500ms")
    def slow(_messages: grete.Messages) -> None:
        release.wait()

    with app.running():
        try:
            eventually(lambda: "consumer.timeout" in messages_by_event(), 60.0, lambda: str(messages_by_event()))
        finally:
            release.set()
    for event in ("consumer.stalled", "consumer.timeout"):
        assert "slow" in messages_by_event()[event]
        assert "release.wait()" in messages_by_event()[event], "its stack"


def test_a_stop_does_not_wait_for_a_topic_that_does_not_exist(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 1)
    kafka_settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "topic.metadata.propagation.max.ms": 600_000,
        "max.block.ms": 600_000,
    }
    app = grete.App(topic, kafka=kafka_settings, shutdown_timeout="60s")
    blocked = threading.Event()
    ended: list[grete.GreteError] = []

    @app.consumer(topic)
    class Copy(grete.Consumer):
        def consume(self) -> None:
            blocked.set()
            try:
                self.producer.produce(f"{topic}-misspelt", self.messages[0].value)
            except grete.GreteError as error:
                ended.append(error)
                raise

    with app.running():
        assert blocked.wait(60.0)
        began = time.monotonic()
    assert time.monotonic() - began < 20.0
    assert isinstance(ended[-1], grete.UnknownTopicError | grete.TimeoutError)
    assert kafka.admin.committed(topic).get((topic, 0), 0) == 0
