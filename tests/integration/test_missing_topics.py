"""Topics that an App needs and that are not there are named at its start, until they are there; dead letter topics are
made where that is allowed. Brokers that are away delay nothing."""

from __future__ import annotations

import threading
import time

import pytest

import grete
from grete._processing import missing_topics
from grete._processing.engine import failures
from tests.integration.app_in_process import make, running, until_done
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually
from tests.unit.probe_client import send_probe

pytestmark = pytest.mark.kafka


class Heard:
    """The events of these names, as they come."""

    def __init__(self, app: grete.App, *names: str) -> None:
        self.events: list[grete.instrumentation.Event] = []
        self.addresses: list[str] = []
        for name in names:
            app.monitor.subscribe(name)(self.events.append)
        app.monitor.subscribe("app.probes")(lambda occurred: self.addresses.extend(occurred["addresses"]))

    def named(self, name: str) -> list[grete.instrumentation.Event]:
        return [event for event in self.events if event.name == name]


def handle(message: grete.Message) -> None:
    """There is nothing to do."""


def topic_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "grete-topics"]


def test_a_dead_letter_topic_that_is_missing_is_named_until_it_is_there(
    kafka: KafkaCluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_topics, "_RECHECK_INTERVAL", 0.1)
    kafka.create_topic(topic, partitions=3)
    missing = f"{topic}.dlq"
    app = make(kafka, group, probes="127.0.0.1:0")
    app.consumer(topic, dead_letter=missing)(handle)
    heard = Heard(app, "topic.missing", "topic.recovered")
    with running(app):
        eventually(lambda: app.statistics()["missing_topics"], 30.0, "the missing topic is known")
        (said,) = heard.named("topic.missing")
        assert (said["topic"], said["handler"], said["setting"]) == (missing, "handle", "dead_letter")
        (text,) = app.statistics()["missing_topics"]
        assert f"grete topics create {missing} --partitions 3" in text
        answer = send_probe(heard.addresses[0], "/readyz")
        assert [(row["reason"], row["topic"]) for row in answer.body["problems"] if row["reason"] == "topic"] == [
            ("topic", missing)
        ]
        eventually(
            lambda: send_probe(heard.addresses[0], "/readyz").status == 200, 30.0, "a missing topic fails no probe"
        )
        kafka.create_topic(missing)
        eventually(lambda: not app.statistics()["missing_topics"], 30.0, "it is there")
        eventually(lambda: not topic_threads(), 10.0, "nothing is looked for any more")
        assert [event["topic"] for event in heard.named("topic.recovered")] == [missing]
        assert len(heard.named("topic.missing")) == 1


def test_a_result_waits_for_its_topic_and_is_no_dead_letter(
    kafka: KafkaCluster, topic: str, group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(missing_topics, "_RECHECK_INTERVAL", 0.1)
    monkeypatch.setattr(failures, "OUTPUT_TOPIC_WAIT", 0.1)
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}.dlq")
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, [b"a", b"b"], partition=0).wait(30)
    missing = f"{topic}.out"
    attempts: list[int] = []

    app = make(kafka, group, probes="127.0.0.1:0")

    @app.consumer(topic, publish=missing, dead_letter=f"{topic}.dlq", retry=grete.Retry(2, backoff="1ms"))
    def copy(value: bytes, attempt: grete.Attempt) -> bytes:
        attempts.append(attempt)
        return value

    heard = Heard(app, "topic.missing", "topic.recovered", "consumer.error")
    with running(app):
        eventually(lambda: app.statistics()["missing_topics"], 30.0, "the missing topic is known")
        (said,) = heard.named("topic.missing")
        assert (said["topic"], said["handler"], said["setting"]) == (missing, said["handler"], "publish")
        (text,) = app.statistics()["missing_topics"]
        assert f"grete topics create {missing} --partitions 1" in text
        answer = send_probe(heard.addresses[0], "/readyz")
        assert missing in [row.get("topic") for row in answer.body["problems"]]
        eventually(lambda: len(attempts) > 3, 60.0, "more runs than attempts")
        kafka.create_topic(missing)
        until_done(kafka, app, topic)
        assert sum(kafka.admin.end_offsets(missing).values()) == 2
        eventually(lambda: not app.statistics()["missing_topics"], 30.0, "it is there")
    assert set(attempts) == {1}
    assert {event["decision"] for event in heard.named("consumer.error")} == {"later"}
    assert kafka.admin.end_offsets(f"{topic}.dlq")[0] == 0


def test_dead_letter_topics_are_made_where_that_is_allowed(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=3)
    made = f"{topic}.dlq"
    app = make(kafka, group, dead_letter_create=True)
    app.consumer(topic, dead_letter=made)(handle)
    heard = Heard(app, "topic.missing", "topic.created")
    with running(app), grete.client.Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        eventually(lambda: heard.named("topic.created"), 30.0, "it is made")
        assert len(admin.describe_topic(made).partitions) == 3
        assert admin.config(made)["retention.ms"].value == "-1", "else old records would be deleted at once"
        (said,) = heard.named("topic.created")
        assert (said["topic"], said["partitions"]) == (made, 3)
        assert app.statistics()["missing_topics"] == []
    assert not heard.named("topic.missing")


def test_a_topic_that_is_read_and_is_missing_is_named_until_it_is_there(
    kafka: KafkaCluster, topic: str, group: str
) -> None:
    kafka.create_topic(topic)
    missing = f"{topic}.later"
    app = make(kafka, group, {"metadata.max.age.ms": 1000}, probes="127.0.0.1:0")
    app.consumer(topic, missing)(handle)
    heard = Heard(app)
    with running(app):
        eventually(lambda: app.statistics()["missing_topics"], 30.0, "the missing topic is known")
        assert not topic_threads(), "clients know, and nothing is asked for"
        (text,) = app.statistics()["missing_topics"]
        assert f"grete topics create {missing}" in text
        assert "handle reads it" in text
        answer = send_probe(heard.addresses[0], "/readyz")
        assert missing in [row.get("topic") for row in answer.body["problems"]]
        kafka.create_topic(missing)
        eventually(lambda: not app.statistics()["missing_topics"], 30.0, "it is there")


def test_brokers_that_are_away_delay_neither_the_start_nor_the_stop() -> None:
    app = grete.App("away", kafka={"bootstrap.servers": "127.0.0.1:1"}, shutdown_timeout="5s")
    app.consumer("orders", dead_letter="orders.dlq")(handle)
    heard = Heard(app, "topic.missing")
    began = time.monotonic()
    app.start()
    assert topic_threads()
    app.stop()
    assert time.monotonic() - began < 4.0
    eventually(lambda: not topic_threads(), 10.0, "its thread ends with the client that it has asked")
    assert heard.events == []


@pytest.mark.parametrize("created", [False, True])
def test_a_topic_that_a_record_creates_is_not_looked_up(created: bool) -> None:
    app = grete.App("away", kafka={"bootstrap.servers": "127.0.0.1:1", "allow.auto.create.topics": created})

    @app.consumer("orders", publish="invoices")
    def copy(value: bytes) -> bytes:
        return value

    app.start()
    try:
        assert len(topic_threads()) == (not created)
    finally:
        app.stop()
    eventually(lambda: not topic_threads(), 10.0, "its thread ends with the client that it has asked")
