"""A topic that vanishes and comes back under its name: an App goes on by `auto.offset.reset`, and says so."""

from __future__ import annotations

import pytest

import grete
from tests.integration.app_in_process import make, running, until_done
from tests.integration.test_failed_partitions import Rows, admin, events
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka

PROTOCOLS = ("classic", "consumer")


def reading(kafka: KafkaCluster, topic: str, rows: Rows, protocol: str) -> grete.App:
    """An App that notes partition and offset of each record."""
    if protocol == "consumer" and kafka.version.startswith("3."):
        pytest.skip("the consumer protocol is there from Kafka 4.0 on")
    app = make(kafka, topic, {"metadata.max.age.ms": 1000, "group.protocol": protocol})

    @app.consumer(topic)
    def note(message: grete.Message) -> None:
        rows.append((message.partition, message.offset))

    return app


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("partitions", [2, 3, 1])
def test_a_topic_is_away_for_a_while(kafka: KafkaCluster, topic: str, protocol: str, partitions: int) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    rows: Rows = []
    app = reading(kafka, topic, rows, protocol)
    said, resets = events(app, "topic.error"), events(app, "offset.reset")
    with running(app), admin(kafka) as at:
        until_done(kafka, app, topic)
        at.delete_topics([topic])
        eventually(lambda: said, 30.0, "the App says that the topic is away")
        at.create_topic(topic, partitions=partitions)
        expected = [(partition, offset) for partition in range(partitions) for offset in range(100)]
        fill(kafka.bootstrap_servers, topic, 100 * partitions, partitions=partitions)
        eventually(
            lambda: sorted(rows[200:]) == expected,
            60.0,
            lambda: f"the new topic's records: {len(rows) - 200} {app.statistics()}",
        )
        until_done(kafka, app, topic)
    # A partition that only the new topic has is read from its beginning, like any other one.
    said_of = {(int(reset["partition"]), int(reset["from"]), int(reset["to"])) for reset in resets}
    assert said_of == {(partition, 100, 0) for partition in range(min(2, partitions))}


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_member_joins_while_the_topic_is_away(kafka: KafkaCluster, topic: str, protocol: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    rows: Rows = []
    first, second = reading(kafka, topic, rows, protocol), reading(kafka, topic, rows, protocol)
    said = events(first, "topic.error")
    with running(first), admin(kafka) as at:
        until_done(kafka, first, topic)
        at.delete_topics([topic])
        eventually(lambda: said, 30.0, "the App says that the topic is away")
        with running(second):
            eventually(lambda: len(kafka.admin.members(topic)) == 2, 60.0, "two members")
            at.create_topic(topic, partitions=2)
            fill(kafka.bootstrap_servers, topic, 200, partitions=2)
            expected = [(partition, offset) for partition in range(2) for offset in range(100)]
            eventually(lambda: sorted(rows[200:]) == expected, 60.0, lambda: f"the new topic's records: {len(rows)}")
            until_done(kafka, first, topic)
