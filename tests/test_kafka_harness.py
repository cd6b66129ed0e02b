"""The harness itself: what the other tests stand on must hold first."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer

from tests.kafka import KafkaCluster, chosen, eventually, fill, new_cluster, partition_of, value_of
from tests.kafka.foreign_producer import produce
from tests.kafka.java import JavaConsumer
from tests.kafka.load import index_of
from tests.kafka.probe import api_versions
from tests.kafka.processes import end, kill_group, spawn, stands_still
from tests.kafka.waiting import Deadline

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).resolve().parents[1]


def read_all(servers: str, topic: str, count: int, seconds: float = 30.0) -> list[tuple[int, int, bytes]]:
    """(partition, offset, value) of the first `count` records, by confluent-kafka."""
    settings = {"bootstrap.servers": servers, "group.id": "judge", "auto.offset.reset": "earliest"}
    consumer = Consumer({**settings, "enable.auto.commit": False})
    consumer.subscribe([topic])
    rows: list[tuple[int, int, bytes]] = []
    deadline = Deadline(seconds)
    try:
        while len(rows) < count and not deadline.over:
            for message in consumer.consume(1000, timeout=0.2):
                assert message.error() is None
                partition, offset, value = message.partition(), message.offset(), message.value()
                assert partition is not None
                assert offset is not None
                assert value is not None
                rows.append((partition, offset, value))
    finally:
        consumer.close()
    return rows


def test_what_librdkafka_writes_it_reads(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)
    fill(kafka.bootstrap_servers, topic, 3000, partitions=3, codec="lz4")
    rows = read_all(kafka.bootstrap_servers, topic, 3000)
    assert sorted(index_of(value) for *_, value in rows) == list(range(3000))
    for partition, offset, value in rows:
        index = index_of(value)
        assert (partition, offset) == (partition_of(index, 3), index // 3)
        assert value == value_of(index, 100)


def test_foreign_clients_agree_on_values_and_aborts(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=1)
    answer = produce(
        kafka, topic, 1000, size=300, transaction=100, abort=3, properties={"transactional.id": topic}, codec="zstd"
    )
    assert answer == {"produced": 1000, "aborted": 300}
    rows = read_all(kafka.bootstrap_servers, topic, 700)
    assert [index_of(value) for *_, value in rows] == [i for i in range(1000) if (i // 100 + 1) % 3]
    assert all(value == value_of(index_of(value), 300) for *_, value in rows)


@pytest.mark.apache("Kafka's own consumer")
def test_java_member_reports_what_it_reads(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    with JavaConsumer(kafka, topic, topic) as member:
        assigned = member.until("assigned", 30.0)
        assert assigned["partitions"] == [[topic, 0], [topic, 1]]

        def all_read() -> bool:
            member.drain()
            return sum(map(len, member.offsets().values())) == 200

        eventually(all_read, 30.0, "200 records")
        member.leave()
    assert member.offsets() == {(topic, 0): list(range(100)), (topic, 1): list(range(100))}
    assert kafka.admin.committed(topic) == {(topic, 0): 100, (topic, 1): 100}


def test_a_killed_broker_comes_back_on_its_port_with_its_data() -> None:
    with new_cluster() as kafka:
        kafka.create_topic("kept", partitions=1)
        fill(kafka.bootstrap_servers, "kept", 1000)
        address = kafka.bootstrap_servers
        kafka.kill(1, signal.SIGKILL)
        host, _, port = address.partition(":")
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), timeout=2.0)
        kafka.start(1)
        assert kafka.bootstrap_servers == address
        fill(kafka.bootstrap_servers, "kept", 10, first_index=1000)
        rows = read_all(kafka.bootstrap_servers, "kept", 1010)
        assert [index_of(value) for *_, value in rows] == list(range(1010))
        # A clean stop leaves a log that says so.
        kafka.stop(1)
        process = kafka.nodes[1].process
        assert process is not None
        assert "shut down completed" in kafka.log(1) if chosen().is_apache else process.poll() == 0
        assert "--- node 1" in kafka.broker_log_tail()


def test_three_nodes_share_the_partitions_and_survive_one() -> None:
    with new_cluster(nodes=3) as kafka:
        kafka.create_topic("spread", partitions=6)
        assert set(kafka.admin.leaders("spread").values()) == {1, 2, 3}
        fill(kafka.bootstrap_servers, "spread", 600, partitions=6)
        kafka.kill(3)
        eventually(lambda: set(kafka.admin.leaders("spread").values()) == {1, 2}, 60.0, kafka.broker_log_tail)
        fill(kafka.bootstrap_servers, "spread", 600, partitions=6, first_index=600)
        kafka.start(3)
        assert kafka.admin.end_offsets("spread") == dict.fromkeys(range(6), 200)


def test_no_broker_outlives_a_killed_test_run(tmp_path: Path) -> None:
    script = (
        f"import signal; from tests.kafka import choose, new_cluster; choose({chosen().text!r})\n"
        "with new_cluster() as kafka:\n"
        "    print(kafka.nodes[1].process.pid, kafka.bootstrap_servers, flush=True); signal.pause()\n"
    )
    runner = subprocess.Popen([sys.executable, "-c", script], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert runner.stdout is not None
    pid, address = runner.stdout.readline().split()
    host, _, port = address.partition(":")
    assert api_versions(host, int(port))
    runner.kill()
    runner.wait(10)

    def gone() -> bool:
        # Its new parent may not have reaped it yet: a zombie serves no client.
        status = Path(f"/proc/{pid}/stat")
        return not status.exists() or status.read_text().rpartition(")")[2].split()[0] in "ZX"

    eventually(gone, 10.0, f"the end of broker {pid}")
    runner.stdout.close()


def test_a_stopped_process_is_seen_to_stand_still() -> None:
    busy = "threading.Thread(target=lambda: all(iter(lambda: True, None))).start()"
    spin = f"import threading\nfor _ in range(4):\n    {busy}\nprint()"
    process = spawn([sys.executable, "-u", "-c", spin], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        assert not stands_still(process.pid)
        kill_group(process, signal.SIGSTOP)
        eventually(lambda: stands_still(process.pid), 30.0, "it stands still")
        kill_group(process, signal.SIGCONT)
        eventually(lambda: not stands_still(process.pid), 30.0, "it goes on")
    finally:
        end(process)
        if process.stdout is not None:
            process.stdout.close()


def test_eventually_says_what_did_not_happen() -> None:
    started = time.monotonic()
    with pytest.raises(AssertionError, match=r"not within 0\.05 s: the moon"):
        eventually(lambda: False, 0.05, "the moon")
    assert time.monotonic() - started < 5.0


def test_two_clusters_at_once_do_not_meet(kafka: KafkaCluster) -> None:
    with new_cluster() as other:
        ports = {node.port.number for cluster in (kafka, other) for node in cluster.nodes.values()}
        assert len(ports) == 2
        other.create_topic("theirs")
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        assert "theirs" not in producer.list_topics(timeout=10.0).topics
    assert kafka.nodes[1].directory.is_dir()
