"""Partitions of an App that cannot be read: each says so everywhere while that lasts, and heals as soon as it can."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from confluent_kafka.admin import AclOperation, AdminClient, ResourceType  # type: ignore[attr-defined]

import grete
import grete.client
from grete._processing.runner import Runner
from tests.integration.app_in_process import make, running, until_done
from tests.integration.test_corrupt import BadByte, bad_byte
from tests.integration.test_probes import value
from tests.integration.test_produce_acl import allow_again, deny, guarded
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.ports import ReservedPort
from tests.unit.probe_client import Response, send_probe

__all__ = ["bad_byte", "guarded"]

pytestmark = pytest.mark.kafka

Rows = list[tuple[int, int]]


def reading(kafka: KafkaCluster, topic: str, rows: Rows, reset: str, **settings: Any) -> grete.App:
    """An App that notes partition and offset of each record.

    The classic protocol knows topics by name, so that a partition keeps its old offset when a topic of the same name
    comes; `test_topic_comes_back.py` has both protocols.
    """
    kafka_settings = {"auto.offset.reset": reset, "metadata.max.age.ms": 1000, "group.protocol": "classic"}
    app = make(kafka, topic, kafka_settings, **settings)

    @app.consumer(topic)
    def note(message: grete.Message) -> None:
        rows.append((message.partition, message.offset))

    return app


def admin(kafka: KafkaCluster) -> grete.client.Admin:
    return grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers})


def lane(app: grete.App, partition: int = 0) -> dict[str, Any]:
    (found,) = [lane for lane in app.statistics()["lanes"] if lane["partition"] == partition]
    return dict(found)


def failed(app: grete.App, reason: str, partition: int = 0) -> Callable[[], bool]:
    return lambda: any(
        lane["state"] == "failed" and lane["reason"] == reason and lane["partition"] == partition
        for lane in app.statistics()["lanes"]
    )


def events(app: grete.App, name: str) -> list[dict[str, Any]]:
    heard: list[dict[str, Any]] = []
    app.monitor.subscribe(name, lambda event: heard.append(dict(event.payload)))
    return heard


def address() -> str:
    """A free one, for probes."""
    port = ReservedPort()
    port.release()
    return f"127.0.0.1:{port.number}"


def problem(answer: Response) -> dict[str, Any]:
    """The first partition that a probe names."""
    found: dict[str, Any] = next(one for one in answer.body["problems"] if one["reason"] == "partition")
    return found


def test_a_topic_that_is_deleted_and_created_again_is_read_from_its_start(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    rows: Rows = []
    app = reading(kafka, topic, rows, "earliest")
    resets = events(app, "offset.reset")
    with running(app), admin(kafka) as at:
        until_done(kafka, app, topic)
        assert len(rows) == 200
        at.delete_topics([topic])
        at.create_topic(topic, partitions=2)
        fill(kafka.bootstrap_servers, topic, 300, partitions=2)
        eventually(lambda: len(rows) >= 500, 30.0, lambda: f"the new topic's records: {len(rows)} {app.statistics()}")
        until_done(kafka, app, topic)
        assert sorted(rows[200:]) == [(partition, offset) for partition in range(2) for offset in range(150)]
        assert kafka.admin.committed(topic) == {(topic, 0): 150, (topic, 1): 150}
        moved = sorted((reset["partition"], reset["from"], reset["to"]) for reset in resets)
        assert moved == [(0, 100, 0), (1, 100, 0)]


def test_a_topic_that_was_created_again_while_the_app_was_down(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100, partitions=1)
    rows: Rows = []
    with running(first := reading(kafka, topic, rows, "earliest")):
        until_done(kafka, first, topic)
    with admin(kafka) as at:
        at.delete_topics([topic])
        at.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 50, partitions=1)
    rows.clear()
    with running(second := reading(kafka, topic, rows, "earliest")):
        until_done(kafka, second, topic)
    assert rows == [(0, offset) for offset in range(50)]


def test_no_offset_and_no_reset_policy_is_said_everywhere_until_a_seek(
    kafka: KafkaCluster, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 40, partitions=2)
    rows: Rows = []
    probes = address()
    app = reading(kafka, topic, rows, "none", probes=probes, stall_after="1s")
    failures, recoveries = events(app, "partition.failed"), events(app, "partition.recovered")
    with running(app):
        eventually(failed(app, "no_offset", 1), 30.0, "the failed partition")
        stuck = lane(app, 1)
        assert "auto.offset.reset" in stuck["error"]
        assert stuck["failed_since"] > 1e9
        assert stuck["lag"] is None, "without a position the lag is unknown"
        ready, live = send_probe(probes, "/readyz"), send_probe(probes, "/livez")
        assert (ready.status, live.status) == (503, 200)
        assert topic in ready.body["why"]
        assert problem(ready)["failure"] == "no_offset"
        assert problem(ready)["seconds"] > 0
        metrics = send_probe(probes, "/metrics").body
        labels = {"handler": lane(app)["handler"], "topic": topic, "partition": "1"}
        assert value(metrics, "grete_partition_failed", **labels) == 1
        assert value(metrics, "grete_lanes", state="failed") == 2
        assert "grete_lag_records{" not in metrics

        def again() -> bool:
            return any(one["partition"] == 1 and one["seconds"] >= 1.0 for one in failures)

        eventually(again, 20.0, "the partition named again")
        assert {(one["topic"], one["reason"]) for one in failures} == {(topic, "no_offset")}
        assert "it waits for a seek" in caplog.text

        with pytest.raises(grete.NotAssignedError) as caught:
            app.seek(topic, 7, "earliest")
        assert (caught.value.topic, caught.value.partition) == (topic, 7)
        app.seek(topic, 0, "earliest")
        app.seek(topic, 1, 15)
        eventually(lambda: len(rows) == 25, 30.0, lambda: f"what was sought: {rows}")
        assert sorted(rows) == [(0, offset) for offset in range(20)] + [(1, offset) for offset in range(15, 20)]
        eventually(lambda: send_probe(probes, "/readyz").status == 200, 10.0, "readiness")
        eventually(lambda: len(recoveries) == 2, 10.0, "recoveries")
        until_done(kafka, app, topic)


def test_livez_says_so_where_the_setting_says_so(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    probes = address()
    app = reading(kafka, topic, [], "none", probes=probes, failed_partition_probes="livez")
    with running(app):
        eventually(failed(app, "no_offset"), 30.0, "the failed partition")
        assert [send_probe(probes, path).status for path in ("/livez", "/readyz")] == [503, 503]


def test_an_app_that_is_to_end_because_of_it_ends_with_a_typed_error(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    app = reading(kafka, topic, [], "none", on_failed_partition="stop")
    app.start()
    eventually(lambda: app.error is not None, 30.0, "the end")
    with pytest.raises(grete.PartitionFailedError, match="no committed offset") as caught:
        app.stop()
    assert (caught.value.topic, caught.value.partition, caught.value.reason) == (topic, 0, "no_offset")


def test_a_failure_whose_log_lines_the_start_has_drained_ends_the_app(
    kafka: KafkaCluster, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The start writes what has happened before its own line, and takes the wake-up of the main loop with it."""
    run_until_stop = Runner.run_until_stop

    def late(runner: Runner) -> None:
        def has_failed() -> bool:
            try:
                runner._dispatcher.check()
            except grete.PartitionFailedError:
                return True
            return False

        eventually(has_failed, 30.0, "the failed partition")
        runner._main_loop.drain_log_events()
        run_until_stop(runner)

    monkeypatch.setattr(Runner, "run_until_stop", late)
    kafka.create_topic(topic)
    app = reading(kafka, topic, [], "none", on_failed_partition="stop")
    app.start()
    eventually(lambda: app.error is not None, 20.0, "the end")  # the failure is repeated after 30 s
    with pytest.raises(grete.PartitionFailedError):
        app.stop()


@pytest.mark.parametrize("reset", ["earliest", "none"])
def test_records_that_were_deleted_under_the_committed_offset(kafka: KafkaCluster, topic: str, reset: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 50, partitions=1)
    rows: Rows = []
    with running(first := reading(kafka, topic, rows, "earliest")):
        until_done(kafka, first, topic)
    fill(kafka.bootstrap_servers, topic, 50, partitions=1)
    with admin(kafka) as at:
        at.delete_records({(topic, 0): 80})
    rows.clear()
    app = reading(kafka, topic, rows, reset)
    with running(app):
        if reset == "none":
            eventually(failed(app, "offset_out_of_range"), 30.0, "the failed partition")
            app.seek(topic, 0, 80)
        until_done(kafka, app, topic)
        assert rows == [(0, offset) for offset in range(80, 100)]


def test_a_right_that_was_taken_and_given_back(guarded: tuple[KafkaCluster, AdminClient], topic: str) -> None:
    kafka, acls = guarded
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 50, partitions=1)
    rows: Rows = []
    app = reading(kafka, topic, rows, "earliest")
    recoveries = events(app, "partition.recovered")
    try:
        with running(app):
            until_done(kafka, app, topic)
            deny(acls, ResourceType.TOPIC, topic, AclOperation.READ)
            fill(kafka.bootstrap_servers, topic, 50, partitions=1)
            eventually(failed(app, "not_authorized"), 30.0, "the failed partition")
            assert "needs Read on topic" in lane(app)["error"]
            allow_again(acls)
            eventually(lambda: len(rows) == 100, 30.0, lambda: f"the rest: {len(rows)} {app.statistics()}")
            until_done(kafka, app, topic)
            (recovery,) = recoveries
            assert (recovery["topic"], recovery["partition"], recovery["reason"]) == (topic, 0, "not_authorized")
    finally:
        allow_again(acls)


@pytest.mark.apache("a byte is flipped in a file of the broker")
def test_a_corrupt_batch_that_is_whole_again(kafka: KafkaCluster, topic: str, bad_byte: BadByte) -> None:
    rows: Rows = []
    app = reading(kafka, topic, rows, "earliest")
    with running(app):
        eventually(failed(app, "corrupt_batch", 1), 30.0, "the failed partition")
        eventually(lambda: lane(app, 1)["lag"] == 800, 20.0, lambda: f"its lag: {lane(app, 1)}")
        assert lane(app, 0)["state"] != "failed"
        bad_byte.flip()
        until_done(kafka, app, topic)
        assert lane(app, 1)["error"] is None
    assert sorted(rows) == [(partition, offset) for partition in range(2) for offset in range(1000)]


def test_a_low_level_consumer_raises_typed_errors_as_ever(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10, partitions=1)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "auto.offset.reset": "none", "group.id": topic}
    for start, said in ((None, "no committed offset"), (99, "no offset 99")):
        with grete.client.Consumer(settings) as reader:
            reader.assign([(topic, 0, start)])
            with pytest.raises(grete.OffsetError, match=said):
                eventually(lambda: reader.poll(0.25) and False, 30.0, "the error")
            reader.seek(topic, 0, 5)
            eventually(lambda: len(reader.poll(0.25)) == 5, 30.0, "records")
