"""What `grete dev --data` keeps: over a stop, over SIGKILL at any time, and when the disk is full."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from tests.integration.dev_process import DevRun

PARTITIONS = 3
ROUNDS = int(os.environ.get("DATA_ROUNDS", "6"))
SEED = int(os.environ.get("DATA_SEED", "1"))


class Acknowledged:
    """The records that a broker has acknowledged: partition and offset to value."""

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], bytes] = {}

    def note(self, error: KafkaError | None, message: Message) -> None:
        if error is None:
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            assert self.records.setdefault((partition, offset), value) == value, "two records at one offset"


def read_all(servers: str) -> dict[tuple[int, int], bytes]:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "reader", "enable.auto.commit": False})
    with contextlib.closing(consumer):
        ends = {}
        for index in range(PARTITIONS):
            low, high = consumer.get_watermark_offsets(TopicPartition("orders", index), timeout=20)
            assert low == 0
            ends[index] = high
        consumer.assign([TopicPartition("orders", index, 0) for index in ends])
        records: dict[tuple[int, int], bytes] = {}
        while len(records) < sum(ends.values()):
            message = consumer.poll(20)
            assert message is not None, f"{len(records)} of {ends}"
            assert message.error() is None, message.error()
            partition, offset, value = message.partition(), message.offset(), message.value()
            assert partition is not None
            assert offset is not None
            assert isinstance(value, bytes)
            records[partition, offset] = value
        return records


def commit(servers: str, offset: int) -> None:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "shop", "enable.auto.commit": False})
    with contextlib.closing(consumer):
        consumer.commit(offsets=[TopicPartition("orders", 0, offset)], asynchronous=False)


def committed(servers: str) -> int:
    consumer = Consumer({"bootstrap.servers": servers, "group.id": "shop"})
    with contextlib.closing(consumer):
        return int(consumer.committed([TopicPartition("orders", 0)], timeout=20)[0].offset)


def test_records_topics_and_offsets_survive_a_stop(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acknowledged = Acknowledged()
    with DevRun(tmp_path, "--data", data, "--topic", f"orders:{PARTITIONS}") as dev:
        producer = Producer({"bootstrap.servers": dev.bootstrap_servers})
        for number in range(1000):
            producer.produce("orders", b"%d" % number, partition=number % PARTITIONS, on_delivery=acknowledged.note)
        assert producer.flush(20) == 0
        commit(dev.bootstrap_servers, 17)
        cluster = AdminClient({"bootstrap.servers": dev.bootstrap_servers}).list_topics(timeout=20).cluster_id
        assert dev.stop() == 0
    assert len(acknowledged.records) == 1000
    with DevRun(tmp_path, "--data", data) as dev:
        assert read_all(dev.bootstrap_servers) == acknowledged.records
        assert committed(dev.bootstrap_servers) == 17
        assert AdminClient({"bootstrap.servers": dev.bootstrap_servers}).list_topics(timeout=20).cluster_id == cluster
        assert dev.stop() == 0


def test_without_data_everything_is_lost(tmp_path: Path) -> None:
    for _ in range(2):
        with DevRun(tmp_path) as dev:
            admin = AdminClient({"bootstrap.servers": dev.bootstrap_servers})
            assert "orders" not in admin.list_topics(timeout=20).topics
            producer = Producer({"bootstrap.servers": dev.bootstrap_servers})
            producer.produce("orders", b"x")
            assert producer.flush(20) == 0
            assert dev.stop() == 0


def test_what_was_acknowledged_survives_sigkill_at_any_time(tmp_path: Path) -> None:
    data = tmp_path / "data"
    chance = random.Random(SEED)
    acknowledged = Acknowledged()
    number = 0
    for round_number in range(ROUNDS):
        with DevRun(tmp_path, "--data", data, "--topic", f"orders:{PARTITIONS}") as dev:
            servers = dev.bootstrap_servers
            stored = read_all(servers)
            missing = acknowledged.records.items() - stored.items()
            assert not missing, f"round {round_number}, seed {SEED}: {len(missing)} acknowledged records are lost"
            assert committed(servers) == (round_number - 1 if round_number else -1001)
            commit(servers, round_number)
            settings = {"bootstrap.servers": servers, "linger.ms": 1, "message.timeout.ms": 2000, "retries": 0}
            producer = Producer(settings)
            # The kill comes while records are on their way.
            kill_after = len(acknowledged.records) + chance.randrange(1, 2000)
            end = time.monotonic() + 30
            while len(acknowledged.records) < kill_after:
                assert time.monotonic() < end, "no record is acknowledged any more"
                with contextlib.suppress(BufferError):
                    for _ in range(20):
                        value = b"%d-" % number + b"x" * chance.randrange(300)
                        producer.produce("orders", value, partition=number % PARTITIONS, on_delivery=acknowledged.note)
                        number += 1
                producer.poll(0.001)
            os.kill(dev.pid, signal.SIGKILL)
            dev.wait()
            producer.flush(5)  # responses that were sent before the kill
            producer.purge()
    with DevRun(tmp_path, "--data", data) as dev:
        stored = read_all(dev.bootstrap_servers)
        assert not acknowledged.records.items() - stored.items()
        assert committed(dev.bootstrap_servers) == ROUNDS - 1
        assert dev.stop() == 0


def test_a_full_disk_ends_the_brokers_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acknowledged = Acknowledged()
    # A limit of file sizes stands in for a full disk: a write is cut short, then fails.
    limit = ["sh", "-c", 'ulimit -f 512 && exec "$@"', "sh"]
    with DevRun(tmp_path, "--data", data, "--topic", f"orders:{PARTITIONS}", prefix=limit) as dev:
        producer = Producer(
            {"bootstrap.servers": dev.bootstrap_servers, "message.timeout.ms": 3000, "linger.ms": 1, "retries": 0}
        )
        for number in range(10_000):
            producer.produce("orders", b"%0100d" % number, partition=number % PARTITIONS, on_delivery=acknowledged.note)
            producer.poll(0)
            if number == 100:  # else all of them may come in batches too large for the limit
                producer.flush(30)
        assert dev.wait() == 1
        assert "cannot write" in dev.output
        assert "ulimit" in dev.output, "the message says the cure"
        assert "Traceback" not in dev.output
        producer.flush(10)
        producer.purge()
    assert 0 < len(acknowledged.records) < 10_000
    with DevRun(tmp_path, "--data", data) as dev:
        assert not acknowledged.records.items() - read_all(dev.bootstrap_servers).items()
        assert dev.stop() == 0


def test_a_torn_end_is_cut_off_and_a_damaged_middle_is_refused(tmp_path: Path) -> None:
    data = tmp_path / "data"
    acknowledged = Acknowledged()
    with DevRun(tmp_path, "--data", data, "--topic", f"orders:{PARTITIONS}") as dev:
        for number in range(10):
            producer = Producer({"bootstrap.servers": dev.bootstrap_servers})
            producer.produce("orders", b"%d" % number, partition=0, on_delivery=acknowledged.note)
            assert producer.flush(20) == 0
        dev.stop(signal.SIGKILL)
    journal = data / "journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole[:-5])
    with DevRun(tmp_path, "--data", data) as dev:
        assert len(read_all(dev.bootstrap_servers)) == 9
        dev.until("were cut off at offset")
        assert dev.stop() == 0
    damaged = bytearray(whole)
    damaged[len(whole) // 2] ^= 0xFF
    journal.write_bytes(damaged)
    with DevRun(tmp_path, "--data", data) as dev:
        assert dev.wait() == 1
        assert f"{journal} is damaged at offset" in dev.output
    assert journal.read_bytes() == damaged


@pytest.mark.parametrize("brokers", [1, 3])
def test_fsync_works_the_same(tmp_path: Path, brokers: int) -> None:
    data = tmp_path / "data"
    acknowledged = Acknowledged()
    words: list[str | Path] = ["--data", data, "--fsync", "--topic", f"orders:{PARTITIONS}", "--brokers", str(brokers)]
    with DevRun(tmp_path, *words) as dev:
        producer = Producer({"bootstrap.servers": dev.bootstrap_servers})
        for number in range(100):
            producer.produce("orders", b"%d" % number, partition=number % PARTITIONS, on_delivery=acknowledged.note)
        assert producer.flush(20) == 0
        dev.stop(signal.SIGKILL)
    with DevRun(tmp_path, *words) as dev:
        assert read_all(dev.bootstrap_servers) == acknowledged.records
        assert dev.stop() == 0
