"""The admin client on one broker; confluent-kafka is the judge."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from confluent_kafka import TopicPartition

import grete
from grete.client import Admin, GroupListing, Lag, NewTopic, Reset
from tests.integration.administration import PROTOCOLS, member, seen, settings
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


@pytest.fixture
def admin(kafka: KafkaCluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        yield admin


def test_creates_a_topic_that_others_see(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    assert admin.create_topic(topic, 3, 1, {"retention.ms": 1000, "preallocate": True})
    there = seen(kafka.bootstrap_servers, topic)
    assert there is not None
    assert {number: partition.leader for number, partition in there.partitions.items()} == dict.fromkeys(range(3), 1)
    of_topic = settings(kafka.bootstrap_servers, topic)
    assert (of_topic["retention.ms"], of_topic["preallocate"]) == ("1000", "true")


def test_a_new_topic_has_what_the_broker_says_if_nothing_else_does(admin: Admin, topic: str) -> None:
    broker = admin.configs("broker", admin.cluster().brokers[0].id)
    admin.create_topic(topic)
    found = admin.describe_topic(topic)
    assert len(found.partitions) == int(broker["num.partitions"].value or 0)
    assert len(found.partitions[0].replicas) == int(broker["default.replication.factor"].value or 0)


def test_partitions_can_be_placed_by_hand(admin: Admin, topic: str) -> None:
    broker = admin.cluster().brokers[0].id
    admin.create_topics([NewTopic(topic, assignment=[[broker], [broker]])])
    assert [partition.replicas for partition in admin.describe_topic(topic).partitions] == [(broker,), (broker,)]


def test_describes_topics_as_others_do(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    found = admin.describe_topic(topic)
    assert (found.name, found.internal, len(found.id or "")) == (topic, False, 22)
    assert [(p.id, p.leader, p.replicas, p.isr) for p in found.partitions] == [(0, 1, (1,), (1,)), (1, 1, (1,), (1,))]
    assert topic in admin.topics()
    assert not any(name.startswith("__") for name in admin.topics())


@pytest.mark.apache("offsets are no topic of the embedded brokers")
def test_internal_topics_are_listed_on_request(admin: Admin, topic: str, group: str) -> None:
    admin.create_topic(topic)
    admin.reset_offsets(group, {(topic, 0): "earliest"})  # creates the offsets topic unless it exists
    assert "__consumer_offsets" in admin.topics(internal=True)


def test_an_existing_topic_is_an_error_unless_it_is_welcome(admin: Admin, topic: str) -> None:
    admin.create_topic(topic, 2)
    with pytest.raises(grete.TopicExistsError, match=f"{topic}.*if_not_exists") as caught:
        admin.create_topic(topic, 5)
    assert (caught.value.topic, caught.value.code, caught.value.name) == (topic, 36, "TOPIC_ALREADY_EXISTS")
    assert not admin.create_topic(topic, 5, if_not_exists=True)
    assert len(admin.describe_topic(topic).partitions) == 2


def test_one_bad_topic_does_not_keep_the_others_from_being_made(admin: Admin, topic: str) -> None:
    topics = [
        NewTopic(f"{topic}-a"),
        NewTopic(f"{topic}-b", replication_factor=9),
        NewTopic(f"{topic}-c", partitions=0),
    ]
    with pytest.raises(grete.KafkaError) as caught:
        admin.create_topics([*topics, NewTopic(f"{topic}-d")])
    assert caught.value.name == "INVALID_REPLICATION_FACTOR"
    assert f"{topic}-b" in str(caught.value)
    (note,) = caught.value.__notes__
    assert f"{topic}-c" in note
    assert "INVALID_PARTITIONS" in note
    assert {name for name in admin.topics() if name.startswith(topic)} == {f"{topic}-a", f"{topic}-d"}


@pytest.mark.parametrize(
    ("wanted", "name", "says"),
    [
        ({"partitions": 0}, "INVALID_PARTITIONS", "partitions"),
        ({"replication_factor": 3}, "INVALID_REPLICATION_FACTOR", "no more replicas than there are brokers"),
        ({"config": {"colour": "red"}}, "INVALID_CONFIG", "colour"),
        ({"config": {"retention.ms": "soon"}}, "INVALID_CONFIG", "retention.ms"),
    ],
)
def test_what_brokers_refuse_is_named(
    admin: Admin, topic: str, wanted: dict[str, object], name: str, says: str
) -> None:
    for validate_only in (True, False):
        with pytest.raises(grete.KafkaError, match=says) as caught:
            admin.create_topic(topic, **wanted, validate_only=validate_only)  # type: ignore[arg-type]
        assert caught.value.name == name
        assert topic in str(caught.value)
    assert topic not in admin.topics()


def test_a_trial_makes_nothing(admin: Admin, topic: str) -> None:
    assert admin.create_topic(topic, validate_only=True)
    assert topic not in admin.topics()
    admin.create_topic(topic)
    admin.create_partitions(topic, 9, validate_only=True)
    admin.alter_config(topic, {"retention.ms": 1}, validate_only=True)
    assert len(admin.describe_topic(topic).partitions) == 1
    assert admin.config(topic)["retention.ms"].source != "topic"


def test_deletes_a_topic(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    admin.create_topic(topic)
    admin.delete_topic(topic)
    assert seen(kafka.bootstrap_servers, topic) is None
    with pytest.raises(grete.UnknownTopicError, match=topic) as caught:
        admin.delete_topic(topic)
    assert (caught.value.topic, caught.value.code) == (topic, 3)


def test_a_deleted_topic_can_be_made_again_at_once(admin: Admin, topic: str) -> None:
    for partitions in (1, 2, 3):
        admin.create_topic(topic, partitions)
        assert len(admin.describe_topic(topic).partitions) == partitions
        admin.delete_topic(topic)
        assert topic not in admin.topics()


def test_adds_partitions(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    admin.create_topic(topic, 2)
    admin.create_partitions(topic, 5)
    there = seen(kafka.bootstrap_servers, topic)
    assert there is not None
    assert sorted(there.partitions) == list(range(5))
    with pytest.raises(grete.KafkaError, match=topic) as caught:
        admin.create_partitions(topic, 3)
    assert caught.value.name == "INVALID_PARTITIONS"
    with pytest.raises(grete.UnknownTopicError):
        admin.create_partitions(f"{topic}-none", 3)


def test_changes_settings_one_by_one(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    admin.create_topic(topic, config={"retention.ms": 1000, "segment.ms": 2000})
    admin.alter_config(topic, {"retention.ms": 3000, "cleanup.policy": "compact"}, ["segment.ms"])

    def own() -> dict[str, str | None]:
        return {name: entry.value for name, entry in admin.config(topic).items() if entry.source == "topic"}

    # The controller answers, and brokers take it over a moment later.
    eventually(lambda: own() == {"retention.ms": "3000", "cleanup.policy": "compact"}, 10.0, lambda: str(own()))
    entries = admin.config(topic)
    assert entries["segment.ms"].is_default
    there = settings(kafka.bootstrap_servers, topic)
    assert {name: entry.value for name, entry in entries.items() if not entry.sensitive} == there
    with pytest.raises(grete.KafkaError, match="colour") as caught:
        admin.alter_config(topic, {"retention.ms": 4000, "colour": "red"})
    assert caught.value.name == "INVALID_CONFIG"
    assert admin.config(topic)["retention.ms"].value == "3000", "all or nothing"


@pytest.mark.apache("settings of embedded brokers are given at their start")
def test_changes_settings_of_brokers(admin: Admin) -> None:
    broker = admin.cluster().brokers[0].id
    assert admin.configs("broker", broker)["node.id"].read_only
    try:
        # The controller answers, and brokers take it over a moment later.
        admin.alter_configs("broker", broker, {"log.cleaner.threads": 2})

        def changed() -> bool:
            found = admin.configs("broker", broker)["log.cleaner.threads"]
            return (found.value, found.source) == ("2", "dynamic-broker")

        eventually(changed, 10.0, "two threads")
        admin.alter_configs("broker", "", {"log.cleaner.backoff.ms": 16000})
        shared = "log.cleaner.backoff.ms"
        eventually(lambda: shared in (found := admin.configs("broker", "")) and found[shared].value == "16000", 10.0)
    finally:
        admin.alter_configs("broker", broker, delete=["log.cleaner.threads"])
        admin.alter_configs("broker", "", delete=["log.cleaner.backoff.ms"])
    with pytest.raises(grete.KafkaError, match="broker 77"):
        admin.configs("broker", 77)
    with pytest.raises(ValueError, match="number"):
        admin.configs("broker", "one")


def test_unknown_topics_are_named(admin: Admin, topic: str) -> None:
    for call in (
        lambda: admin.describe_topic(topic),
        lambda: admin.config(topic),
        lambda: admin.alter_config(topic, {"retention.ms": 1}),
        lambda: admin.offsets([(topic, 0, "latest")]),
        lambda: admin.delete_records({(topic, 0): 1}),
    ):
        with pytest.raises(grete.UnknownTopicError, match=topic) as caught:
            call()
        assert caught.value.topic == topic


def test_finds_offsets(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    assert admin.offsets([(topic, 0, "earliest"), (topic, 1, "latest")]) == {(topic, 0): 0, (topic, 1): 100}
    assert admin.offsets([(topic, 0, datetime(2000, 1, 1, tzinfo=UTC))]) == {(topic, 0): 0}
    assert admin.offsets([(topic, 0, datetime(2100, 1, 1, tzinfo=UTC))]) == {(topic, 0): 100}
    with pytest.raises(grete.UnknownTopicError, match=rf"{topic}\[7\].*2 partitions"):
        admin.offsets([(topic, 7, "latest")])
    with pytest.raises(TypeError, match="place"):
        admin.offsets([(topic, 0, 17)])  # type: ignore[list-item]


def test_deletes_records(admin: Admin, kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    assert admin.delete_records({(topic, 0): 30, (topic, 1): "latest"}) == {(topic, 0): 30, (topic, 1): 100}
    assert kafka.admin.start_offsets(topic) == {0: 30, 1: 100}
    with pytest.raises(grete.KafkaError) as caught:
        admin.delete_records({(topic, 0): 5000})
    assert caught.value.name == "OFFSET_OUT_OF_RANGE"


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_describes_a_group_of_either_protocol(
    admin: Admin, kafka: KafkaCluster, topic: str, group: str, protocol: str
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 20, partitions=2)
    with member(kafka, topic, group, protocol):
        found = admin.describe_group(group)
        assert (found.state, found.protocol, found.protocol_type) == ("Stable", protocol, "consumer")
        assert found.coordinator == kafka.admin.coordinator(group)
        (only,) = found.members
        assert (only.client, only.partitions) == ("foreign", ((topic, 0), (topic, 1)))
        assert set(kafka.admin.members(group)) == {only.id}
        kind = "" if kafka.version < "3.8" else protocol
        listed = [listing for listing in admin.groups() if listing.group == group]
        assert listed == [GroupListing(group, "Stable", kind, "consumer")]
        assert group in [listing.group for listing in admin.groups(["Stable"])]
        assert group not in [listing.group for listing in admin.groups(["Empty"])]
    found = admin.describe_group(group)
    assert (found.state, found.members) == ("Empty", ())


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_offsets_of_a_group_with_members_are_left_alone(
    admin: Admin, kafka: KafkaCluster, topic: str, group: str, protocol: str
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 20)
    with member(kafka, topic, group, protocol) as consumer:
        consumer.commit(asynchronous=False)
        before = admin.committed(group)
        assert list(before) == [(topic, 0)]
        for call, name in (
            (lambda: admin.reset_offsets(group, {(topic, 0): 5}), "NON_EMPTY_GROUP"),
            (lambda: admin.reset_offsets(group, {(topic, 0): 5}, dry_run=True), "NON_EMPTY_GROUP"),
            (lambda: admin.delete_offsets(group, [(topic, 0)]), "GROUP_SUBSCRIBED_TO_TOPIC"),
            (lambda: admin.delete_group(group), "NON_EMPTY_GROUP"),
        ):
            with pytest.raises(grete.GroupNotEmptyError, match=f"{group}.*stop") as caught:
                call()
            assert (caught.value.group, caught.value.name) == (group, name)
        assert admin.committed(group) == before
    assert admin.reset_offsets(group, {(topic, 0): 5}) == {(topic, 0): Reset(before[topic, 0], 5)}
    assert kafka.admin.committed(group) == {(topic, 0): 5}
    admin.delete_group(group)
    assert kafka.admin.committed(group) == {}


def test_lag_is_how_far_a_group_is_behind(admin: Admin, kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    assert admin.lag(group) == {}
    assert admin.committed(group) == {}
    admin.reset_offsets(group, {(topic, 0): 30, (topic, 1): "latest"})
    assert admin.committed(group) == {(topic, 0): 30, (topic, 1): 100} == kafka.admin.committed(group)
    lag = admin.lag(group)
    assert lag == {(topic, 0): Lag(30, 100), (topic, 1): Lag(100, 100)}
    assert [found.lag for found in lag.values()] == [70, 0]


def test_lag_of_an_assigned_partition_without_a_committed_offset_is_none(
    admin: Admin, kafka: KafkaCluster, topic: str, group: str
) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    with member(kafka, topic, group, "classic") as consumer:
        assert admin.lag(group) == {(topic, 0): Lag(None, 100), (topic, 1): Lag(None, 100)}
        consumer.commit(offsets=[TopicPartition(topic, 1, 40)], asynchronous=False)
        lag = admin.lag(group)
        assert {partition: found.lag for (_, partition), found in lag.items()} == {0: None, 1: 60}


def test_resets_offsets_to_every_kind_of_place(admin: Admin, kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=3)
    fill(kafka.bootstrap_servers, topic, 300, partitions=3)
    to = {(topic, 0): "earliest", (topic, 1): datetime(2100, 1, 1, tzinfo=UTC), (topic, 2): 50}
    plan = {(topic, 0): Reset(None, 0), (topic, 1): Reset(None, 100), (topic, 2): Reset(None, 50)}
    assert admin.reset_offsets(group, to, dry_run=True) == plan  # type: ignore[arg-type]
    assert kafka.admin.committed(group) == {}
    assert admin.reset_offsets(group, to) == plan  # type: ignore[arg-type]
    assert kafka.admin.committed(group) == {(topic, 0): 0, (topic, 1): 100, (topic, 2): 50}
    # A consumer that began outside of the log would go where auto.offset.reset sends it.
    with pytest.raises(grete.OffsetError, match=rf"101.*{topic}\[1\].*from 0 to 100"):
        admin.reset_offsets(group, {(topic, 0): 5, (topic, 1): 101})
    assert kafka.admin.committed(group)[topic, 0] == 0, "all or nothing"
    assert admin.reset_offsets(group, {(topic, 1): 0}) == {(topic, 1): Reset(100, 0)}


def test_forgets_offsets(admin: Admin, kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic, partitions=2)
    admin.reset_offsets(group, {(topic, 0): 0, (topic, 1): 0})
    admin.delete_offsets(group, [(topic, 0)])
    assert kafka.admin.committed(group) == {(topic, 1): 0}
    with pytest.raises(grete.UnknownGroupError, match=f"{group}-none"):
        admin.delete_offsets(f"{group}-none", [(topic, 0)])


def test_unknown_groups_are_named(admin: Admin, group: str) -> None:
    for call in (lambda: admin.describe_group(group), lambda: admin.delete_group(group)):
        with pytest.raises(grete.UnknownGroupError, match=group) as caught:
            call()
        assert (caught.value.group, caught.value.code) == (group, 69)


def test_a_consumer_goes_on_where_it_was_sent(admin: Admin, kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100)
    admin.reset_offsets(group, {(topic, 0): 42})
    with grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}) as consumer:
        consumer.subscribe([topic])
        messages = consumer.poll(30.0)
        assert messages.first_offset == 42


def test_describes_the_cluster(admin: Admin, kafka: KafkaCluster) -> None:
    cluster = admin.cluster()
    (broker,) = cluster.brokers
    assert f"{broker.host}:{broker.port}" == kafka.bootstrap_servers
    assert (broker.id, cluster.controller, len(cluster.id)) == (1, 1, 22)


def test_a_string_is_no_list(admin: Admin) -> None:
    for call in (
        lambda: admin.delete_topics("orders"),
        lambda: admin.describe_topics("orders"),
        lambda: admin.delete_groups("billing"),
        lambda: admin.groups("Stable"),
    ):
        with pytest.raises(grete.ConfigError, match=r"takes a list"):
            call()
    with pytest.raises(grete.ConfigError, match="two topics of one name"):
        admin.create_topics([NewTopic("orders"), NewTopic("orders")])
