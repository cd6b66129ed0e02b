"""A coroutine that blocks the event loop: it is named, and what waits for the loop is not reported as running."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

import grete
from grete.instrumentation import Event
from tests.integration.app_in_process import make
from tests.integration.test_probes import value
from tests.kafka import KafkaCluster, eventually, fill
from tests.unit.probe_client import send_probe

pytestmark = pytest.mark.kafka


class Blocking:
    """An App whose coroutine for partition 0 blocks the loop until `release`."""

    def __init__(self, kafka: KafkaCluster, topic: str, **settings: Any) -> None:
        kafka.create_topic(topic, partitions=4)
        fill(kafka.bootstrap_servers, topic, 40, partitions=4)
        self.topic = topic
        self.blocked, self.release = threading.Event(), threading.Event()
        self.seen: list[int] = []
        self.addresses: list[str] = []
        self.app = make(kafka, topic, stall_after="600ms", probes="127.0.0.1:0", **settings)

        @self.app.monitor.subscribe("app.probes")
        def serve(occurred: Event) -> None:
            self.addresses = occurred["addresses"]

        @self.app.consumer(topic)
        async def blocky(messages: grete.Messages) -> None:
            self.blocked.set()
            self.release.wait(60.0)  # blocks
            self.seen.append(len(messages))


@pytest.fixture
def blocking(kafka: KafkaCluster, topic: str) -> Iterator[Blocking]:
    one = Blocking(kafka, topic)
    one.app.start()
    try:
        assert one.blocked.wait(60.0)
        yield one
    finally:
        one.release.set()
        one.app.stop()


def logged(caplog: pytest.LogCaptureFixture, event: str) -> list[str]:
    return [record.getMessage() for record in caplog.records if getattr(record, "event", "") == event]


def test_a_blocked_loop_is_named_with_what_blocks_it(blocking: Blocking, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    eventually(lambda: logged(caplog, "loop.blocked"), 20.0, lambda: f"the loop is reported as blocked: {caplog.text}")
    (text,) = logged(caplog, "loop.blocked")
    head, _, stack = text.partition("\n")
    assert "blocky on " + blocking.topic in head
    assert "all async handlers of this process wait for it" in head
    assert "self.release.wait(60.0)  # blocks" in stack
    (record,) = [record for record in caplog.records if getattr(record, "event", "") == "loop.blocked"]
    fields = record.__dict__
    assert (fields["handler"], fields["topic"], fields["stack"]) == ("blocky", blocking.topic, stack)
    assert 0.6 <= fields["seconds"] < 30.0
    eventually(lambda: logged(caplog, "consumer.stalled"), 20.0, "the one that runs")
    # All who could say that they stall have had the time to.
    eventually(lambda: (blocking.app.statistics()["loop_wait"] or 0.0) > 2.0, 20.0, "more than three limits")
    assert "others go on" not in caplog.text
    assert len(logged(caplog, "consumer.stalled")) == 1, "one runs, and three have not begun"
    blocking.release.set()
    eventually(lambda: sum(blocking.seen) == 40, 30.0, "all records")
    eventually(lambda: logged(caplog, "loop.unblocked"), 10.0, "its end")
    assert blocking.app.statistics()["loop_wait"] == 0.0


def test_what_waits_for_the_loop_does_not_run(blocking: Blocking) -> None:
    app = blocking.app

    def others_wait() -> bool:
        return sorted(lane["state"] for lane in app.statistics()["lanes"]) == ["ready", "ready", "ready", "running"]

    eventually(others_wait, 20.0, lambda: f"three wait and one runs: {app.statistics()['lanes']}")
    time_of_it = time.monotonic()
    assert [lane["running_for"] for lane in app.statistics()["lanes"] if lane["state"] == "ready"] == [None] * 3
    assert app.statistics()["loop_jobs"] == 1
    metrics = app.metrics()
    assert value(metrics, "grete_jobs_running", handler="blocky") == 1
    eventually(lambda: value(app.metrics(), "grete_loop_wait_seconds") > 1.5, 20.0, "it is measured")
    assert value(app.metrics(), "grete_loop_blocked_total") == 1
    blocking.release.set()
    eventually(lambda: sum(blocking.seen) == 40, 30.0, "all records")
    assert value(app.metrics(), "grete_oldest_job_seconds", handler="blocky") < time.monotonic() - time_of_it


def test_the_probe_names_what_blocks_the_loop_and_fails_past_the_handlers_time_out(
    kafka: KafkaCluster, topic: str
) -> None:
    one = Blocking(kafka, topic, handler_timeout="2s")
    one.app.start()
    try:
        assert one.blocked.wait(60.0)

        def problem() -> dict[str, object] | None:
            body = send_probe(one.addresses[0], "/livez").body
            named = (it for it in body["problems"] if it["reason"] == "loop" and "handler" in it)
            return next(named, None)

        eventually(problem, 20.0, lambda: f"it is named: {send_probe(one.addresses[0], '/livez').body}")
        found = problem()
        assert found is not None
        assert (found["handler"], found["topic"], found["limit"]) == ("blocky", topic, 2.0)
        assert "all async handlers of this process wait for it" in str(found["text"])
        eventually(lambda: send_probe(one.addresses[0], "/livez").status == 503, 20.0, "it lasts too long")
        late = [
            it
            for it in send_probe(one.addresses[0], "/livez").body["problems"]
            if it["reason"] in ("handler", "stalled")
        ]
        assert len({it["partition"] for it in late}) <= 1, "those that have not begun are not late"
    finally:
        one.release.set()
        one.app.stop()


def test_a_loop_on_which_handlers_only_await_is_not_blocked(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 2, partitions=2)
    app = make(kafka, topic, stall_after="300ms")
    done = asyncio.Event()

    @app.consumer(topic)
    async def patient(messages: grete.Messages) -> None:
        await asyncio.wait_for(done.wait(), 1.5) if messages.partition == 0 else await asyncio.sleep(1.5)

    with app.running():
        eventually(lambda: logged(caplog, "consumer.stalled"), 60.0, "it runs long")
        eventually(lambda: app.statistics()["counts"]["jobs"] >= 1, 60.0, "and ends")
    assert logged(caplog, "loop.blocked") == []
    assert all("others go on" in text for text in logged(caplog, "consumer.stalled"))
