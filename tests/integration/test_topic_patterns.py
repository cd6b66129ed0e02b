"""Topic patterns: Apps and consumers read what matches, and new topics as they come."""

from __future__ import annotations

import re

import pytest

import grete
from grete.client import Admin, Consumer, Producer, ShareConsumer
from grete.errors import ConfigError
from tests.integration.test_failed_partitions import events
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka


def settings(kafka: KafkaCluster, **more: str | int) -> dict[str, str | int]:
    return {"bootstrap.servers": kafka.bootstrap_servers, "metadata.max.age.ms": 300, **more}


def write(kafka: KafkaCluster, *topics: str) -> None:
    with Producer(settings(kafka)) as producer:
        for topic in topics:
            producer.produce(topic, topic.encode())


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_routes_read_topics_that_match_and_new_ones(kafka: KafkaCluster, topic: str, protocol: str) -> None:
    if protocol == "consumer" and kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    names = [f"{topic}.eu", f"{topic}.us", f"{topic}.special", f"old-{topic}.eu"]
    for name in names:
        kafka.create_topic(name)
    own = {"group.protocol": protocol, "auto.offset.reset": "earliest"}
    app = grete.App(topic, kafka={**settings(kafka), **own}, workers=2)
    by_route: dict[str, list[bytes | None]] = {"all": [], "special": []}
    matched = events(app, "topics.matched")

    @app.consumer(rf"^{re.escape(topic)}\..*")
    def everything(message: grete.Message) -> None:
        by_route["all"].append(message.value)

    @app.consumer(f"{topic}.special")
    def special(message: grete.Message) -> None:
        by_route["special"].append(message.value)

    app.start()
    try:
        write(kafka, *names)
        wanted = {f"{topic}.eu".encode(), f"{topic}.us".encode()}
        eventually(lambda: set(by_route["all"]) == wanted, 30.0, lambda: str(by_route))
        eventually(lambda: by_route["special"] == [f"{topic}.special".encode()], 30.0, lambda: str(by_route))
        kafka.create_topic(f"{topic}.new")
        write(kafka, f"{topic}.new")
        eventually(lambda: f"{topic}.new".encode() in by_route["all"], 30.0, lambda: str(by_route))
        assert [(one["topics"], one["added"]) for one in matched[-1:]] == [("4", f"{topic}.new")]
        with Admin(settings(kafka)) as admin:
            admin.delete_topics([f"{topic}.eu"])
        eventually(lambda: matched[-1]["removed"] == f"{topic}.eu", 30.0, lambda: str(matched))
        eventually(
            lambda: (
                {lane["topic"] for lane in app.statistics()["lanes"]}
                == {f"{topic}.us", f"{topic}.special", f"{topic}.new"}
            ),
            30.0,
            lambda: str(app.statistics()["lanes"]),
        )
        assert app.error is None
    finally:
        app.stop()


@pytest.mark.parametrize(
    ("topic", "settings", "says"),
    [
        ("^(", {}, r'"\^\(" is no topic pattern'),
        (
            "^orders.*",
            {"dead_letter": "orders.dead"},
            'dead_letter="orders.dead" matches a pattern that the route reads',
        ),
        ("^orders.*", {"publish": "orders.done"}, 'publish="orders.done" is a topic that the route reads'),
        ("^orders.*", {"partitions": [0]}, "partitions= names partitions of topics"),
    ],
)
def test_a_route_by_a_pattern_is_checked(topic: str, settings: dict[str, object], says: str) -> None:
    def handler(message: grete.Message) -> bytes | None:
        return message.value

    def plain(message: grete.Message) -> None: ...

    app = grete.App("shop")
    with pytest.raises(ConfigError, match=says):
        app.consumer(topic, **settings)(handler if "publish" in settings else plain)  # type: ignore[arg-type]


def test_a_consumer_waits_for_the_first_topic(kafka: KafkaCluster, topic: str) -> None:
    check_first_topic(kafka, topic, Consumer)


def check_first_topic(kafka: KafkaCluster, topic: str, client: type[Consumer | ShareConsumer]) -> None:
    """Checks a client that subscribes before a topic matches, and to a pattern without a match later."""
    with client(settings(kafka, **{"group.id": topic})) as consumer:
        consumer.subscribe([f"^{topic}-.*"])
        eventually(lambda: consumer.membership().state == "no_topics", 30.0, lambda: str(consumer.membership()))
        assert consumer.membership().ready
        kafka.create_topic(f"{topic}-first", partitions=2)
        wanted = [(f"{topic}-first", 0), (f"{topic}-first", 1)]
        # Each poll lets the log events of the network thread out.
        eventually(lambda: not consumer.poll(0.05) and sorted(consumer.assignment()) == wanted, 30.0, "the topic")
        consumer.subscribe([f"^{topic}-none.*"])
        eventually(lambda: not consumer.poll(0.05) and consumer.assignment() == [], 30.0, "the old topic is given up")
        eventually(lambda: consumer.membership().state == "no_topics", 30.0, lambda: str(consumer.membership()))
        consumer.subscribe([f"^{topic}-.*"])
        eventually(lambda: not consumer.poll(0.05) and sorted(consumer.assignment()) == wanted, 30.0, "the topic again")
        with pytest.raises(ConfigError, match="is no topic pattern"):
            consumer.subscribe(["^("])
