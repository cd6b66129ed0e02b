"""The admin client on three brokers: what every broker knows, and what happens while some of them are away."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections.abc import Iterator

import pytest

import grete
from grete.client import Admin
from tests.integration.administration import seen
from tests.kafka import KafkaCluster, eventually, fill, new_cluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(180)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with new_cluster(nodes=3) as cluster:
        yield cluster


@pytest.fixture
def admin(cluster: KafkaCluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        yield admin


def test_every_broker_knows_what_was_done_when_a_call_returns(admin: Admin, cluster: KafkaCluster, topic: str) -> None:
    for number in range(5):
        name = f"{topic}-{number}"
        admin.create_topic(name, 12, 3)
        for node in cluster.nodes:
            there = seen(cluster.address(node), name)
            assert there is not None, f"broker {node}"
            assert all(partition.leader > 0 for partition in there.partitions.values())
        admin.create_partitions(name, 18)
        grown = [seen(cluster.address(node), name) for node in cluster.nodes]
        assert [there and len(there.partitions) for there in grown] == [18] * 3
        admin.delete_topic(name)
        assert [seen(cluster.address(node), name) for node in cluster.nodes] == [None] * 3


def test_groups_and_leaders_of_all_brokers_are_asked(
    admin: Admin, cluster: KafkaCluster, topic: str, group: str
) -> None:
    admin.create_topic(topic, 12, 3)
    fill(cluster.bootstrap_servers, topic, 1200, partitions=12)
    names = [f"{group}-{number}" for number in range(12)]
    for name in names:
        admin.reset_offsets(name, {(topic, partition): 10 for partition in range(12)})
    assert {listing.group for listing in admin.groups()} >= set(names)
    coordinators = {described.coordinator for described in admin.describe_groups(names).values()}
    assert coordinators == {1, 2, 3}
    leaders = {partition.leader for partition in admin.describe_topic(topic).partitions}
    assert leaders == {1, 2, 3}
    ends = admin.offsets([(topic, partition, "latest") for partition in range(12)])
    assert ends == {(topic, partition): 100 for partition in range(12)}
    assert {lag.lag for lag in admin.lag(names[0]).values()} == {90}
    for node in (1, 2, 3):
        assert admin.configs("broker", node)["node.id"].value == str(node)
    admin.delete_groups(names)
    assert not {listing.group for listing in admin.groups()} & set(names)


def everywhere_in_sync(cluster: KafkaCluster) -> bool:
    """Whether all brokers are there, and each copy of each partition, also of the offsets, is in sync."""
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        if len(admin.cluster().brokers) < len(cluster.nodes):
            return False
        topics = admin.all_topics()
    return all(set(partition.isr) == set(partition.replicas) for topic in topics for partition in topic.partitions)


def test_a_broker_killed_in_the_middle_is_survived(cluster: KafkaCluster, topic: str, group: str) -> None:
    """Topics are made, groups are sent elsewhere and topics are deleted while one broker after the other is killed."""
    stop = threading.Event()
    made: list[str] = []
    failures: list[BaseException] = []
    seed = random.randrange(1_000_000)
    print(f"seed {seed}")

    def work() -> None:
        try:
            with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
                while not stop.is_set():
                    name = f"{topic}-{len(made)}"
                    # With one broker away, two copies are what there is room for.
                    admin.create_topic(name, 3, 2, timeout=60.0)
                    made.append(name)
                    target = {(name, partition): 0 for partition in range(3)}
                    admin.reset_offsets(f"{group}-{len(made)}", target, timeout=60.0)
                    assert set(admin.committed(f"{group}-{len(made)}", timeout=60.0)) == set(target)
        except BaseException as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    try:
        order = [1, 2, 3]
        random.Random(seed).shuffle(order)
        for node in order:
            enough = len(made) + 2
            eventually(lambda enough=enough: len(made) >= enough or failures, 60.0, "topics")  # type: ignore[misc]
            cluster.kill(node)
            enough = len(made) + 2
            eventually(lambda enough=enough: len(made) >= enough or failures, 60.0, "topics")  # type: ignore[misc]
            cluster.start(node)
            # The next one may go only when this one is back in all copies: else some of them have no leader at all,
            # and nothing that needs them can go on before it comes back.
            eventually(lambda: everywhere_in_sync(cluster) or failures, 60.0, "the broker to catch up")
    finally:
        stop.set()
        thread.join(70.0)
    assert not failures, failures
    with Admin({"bootstrap.servers": cluster.bootstrap_servers}) as admin:
        names = set(admin.topics())
        assert set(made) <= names
        groups = {listing.group for listing in admin.groups()}
        assert {f"{group}-{number}" for number in range(1, len(made) + 1)} <= groups
        admin.delete_topics(made)
        assert not set(made) & set(admin.topics())


def test_a_frozen_broker_is_named_and_holds_up_no_topic_for_long(cluster: KafkaCluster, topic: str) -> None:
    # Not the controller: while it is frozen, brokers answer no request until a new controller is elected.
    frozen, alive = sorted(set(cluster.nodes) - {cluster.active_controller()})
    with Admin({"bootstrap.servers": cluster.address(alive), "request.timeout.ms": 3000}) as admin:
        assert len(admin.cluster().brokers) == 3
        cluster.kill(frozen, signal.SIGSTOP)
        try:
            # It leaves the list of brokers after some seconds; until then its groups are missing, and that is said.
            with pytest.raises(grete.PartialResultError, match=f"broker {frozen} to answer ListGroups") as caught:
                admin.groups(timeout=1.5)
            assert isinstance(caught.value.partial, list)
            started = time.monotonic()
            admin.create_topic(topic, 3, 2, timeout=60.0)
            assert time.monotonic() - started < 20.0
            admin.groups(timeout=60.0)
            assert topic in admin.topics()
        finally:
            cluster.kill(frozen, signal.SIGCONT)
