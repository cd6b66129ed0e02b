"""`grete produce`: what comes on stdin, in files or as JSON, in a topic."""

from __future__ import annotations

import array
import contextlib
import fcntl
import json
import re
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Message, TopicPartition

from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.kafka.foreign_producer import produce as produce_by_others
from tests.kafka.processes import end, spawn
from tests.kafka.waiting import Deadline

pytestmark = pytest.mark.kafka
GRETE = str(Path(sys.executable).parent / "grete")
LINE = b"x" * 99 + b"\n"


@pytest.fixture
def own_kafka() -> Iterator[KafkaCluster]:
    with new_cluster() as cluster:
        yield cluster


def run(kafka: KafkaCluster, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    command = [GRETE, "produce", "--bootstrap", kafka.bootstrap_servers, *arguments]
    return subprocess.run(command, input=given, capture_output=True, check=False, timeout=120)


def produce(kafka: KafkaCluster, *arguments: str, given: bytes = b"") -> None:
    done = run(kafka, *arguments, given=given)
    assert (done.returncode, done.stdout) == (0, b""), done.stderr
    assert re.fullmatch(rf"[0-9,]+ records? written to {arguments[0]}(, [0-9]+ partitions?)?\n", done.stderr.decode())


@contextmanager
def typing(kafka: KafkaCluster, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process whose standard input stays open."""
    command = [GRETE, "produce", "--bootstrap", kafka.bootstrap_servers, *arguments]
    process = spawn(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        yield process
    finally:
        end(process)
        for stream in (process.stdin, process.stdout, process.stderr):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


def write(process: subprocess.Popen[bytes], data: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(data)
    process.stdin.flush()


def _unread(process: subprocess.Popen[bytes]) -> int:
    """Bytes in the pipe."""
    assert process.stdin is not None
    count = array.array("i", [0])
    fcntl.ioctl(process.stdin, termios.FIONREAD, count)
    return count[0]


def read(kafka: KafkaCluster, topic: str) -> dict[int, list[Message]]:
    """Everything that is in the topic, by a foreign client."""
    ends = kafka.admin.end_offsets(topic)
    found: dict[int, list[Message]] = {partition: [] for partition in ends}
    consumer = Consumer(
        {"bootstrap.servers": kafka.bootstrap_servers, "group.id": "judge", "enable.auto.commit": False}
    )
    try:
        consumer.assign([TopicPartition(topic, partition, 0) for partition in ends])
        deadline = Deadline(30.0)
        while sum(map(len, found.values())) < sum(ends.values()):
            assert not deadline.over, f"only {found}"
            message = consumer.poll(0.5)
            if message is not None:
                assert message.error() is None
                partition = message.partition()
                assert partition is not None
                found[partition].append(message)
    finally:
        consumer.close()
    return found


def as_json(kafka: KafkaCluster, topic: str) -> list[dict[str, Any]]:
    command = [GRETE, "consume", "--bootstrap", kafka.bootstrap_servers, topic, "--until-end", "--json"]
    done = subprocess.run(command, capture_output=True, check=True, timeout=60)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_lines_are_records_in_order(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, given=b"one\n\n\xff\x00\nlast")
    assert [message.value() for message in read(kafka, topic)[0]] == [b"one", b"", b"\xff\x00", b"last"]


def test_keys_headers_tombstones_and_compression(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    options = ("--key-separator", "\t", "--null-value", "NULL", "-H", "a=1", "-H", "a=2", "-p", "1")
    produce(kafka, topic, *options, "-k", "compression.type=zstd", given=b"k\tv\nk\tNULL\n")
    messages = read(kafka, topic)[1]
    assert [(message.key(), message.value()) for message in messages] == [(b"k", b"v"), (b"k", None)]
    assert [message.headers() for message in messages] == [[("a", b"1"), ("a", b"2")]] * 2


def test_files_are_records(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    (tmp_path / "a").write_bytes(b"one\ntwo\n")
    (tmp_path / "b").write_bytes(bytes(range(256)) * 2000)
    produce(kafka, topic, "--file", str(tmp_path / "a"), "--file", str(tmp_path / "b"), "--key", "k")
    messages = read(kafka, topic)[0]
    assert [message.value() for message in messages] == [b"one\ntwo\n", bytes(range(256)) * 2000]
    assert {message.key() for message in messages} == {b"k"}


def test_what_consume_prints_makes_the_round_trip(kafka: KafkaCluster, topic: str) -> None:
    copy = f"{topic}-copy"
    kafka.create_topic(topic, partitions=3)
    kafka.create_topic(copy, partitions=3)
    produce_by_others(kafka, topic, 300, partitions=3, keys=5, headers="mixed", size=8, nulls=100)
    original = as_json(kafka, topic)
    lines = "".join(json.dumps(row) + "\n" for row in original).encode()
    produce(kafka, copy, "--json", "--keep-partitions", given=lines)

    def ordered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return sorted(({**row, "topic": ""} for row in rows), key=lambda row: (row["partition"], row["offset"]))

    assert len(original) == 300
    assert ordered(as_json(kafka, copy)) == ordered(original)


def test_a_line_is_sent_when_it_comes_and_ctrl_c_loses_no_whole_one(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with typing(kafka, topic) as process:
        write(process, b"one\ntwo\n")
        eventually(lambda: kafka.admin.end_offsets(topic) == {0: 2}, 30.0, "two records")
        write(process, b"three\nhalf")
        eventually(lambda: kafka.admin.end_offsets(topic) == {0: 3}, 30.0, "three records")
        process.send_signal(signal.SIGINT)
        assert process.stderr is not None
        said = f"3 records written to {topic}, 1 partition\n".encode()
        assert (process.wait(10.0), process.stderr.read()) == (0, said)
    assert [message.value() for message in read(kafka, topic)[0]] == [b"one", b"two", b"three"]


def peak_kilobytes(pid: int) -> int:
    """Returns the largest resident memory of the process so far, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM:"))


def test_memory_is_bounded_however_much_comes(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    count = 1_500_000
    with typing(kafka, topic) as process:
        write(process, LINE)
        eventually(lambda: kafka.admin.end_offsets(topic) == {0: 1}, 30.0, "the first record")
        base = peak_kilobytes(process.pid)
        for _ in range(count // 10_000):
            write(process, LINE * 10_000)
        eventually(lambda: kafka.admin.end_offsets(topic) == {0: count + 1}, 60.0, "all records")
        # The input is 150 MB, and buffer.memory 32 MiB; requests, answers and the code that runs come on top.
        assert peak_kilobytes(process.pid) - base < 100 * 1024
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(30.0) == 0


def test_undelivered_records_are_reported_and_the_status_is_1(own_kafka: KafkaCluster, topic: str) -> None:
    own_kafka.create_topic(topic)
    quick = ("-k", "request.timeout.ms=2000", "-k", "delivery.timeout.ms=6000")
    with typing(own_kafka, topic, *quick, "-k", "max.in.flight.requests.per.connection=1") as process:
        # With one request at a time, the second record is in the log only after the first one's answer has come.
        # The second record's own answer may come before the broker stops, or not.
        for number, line in enumerate((b"one\n", b"two\n"), 1):
            write(process, line)
            eventually(lambda number=number: own_kafka.admin.end_offsets(topic) == {0: number}, 30.0, "a record")  # type: ignore[misc]
        own_kafka.kill(1, signal.SIGSTOP)
        write(process, b"three\nfour\n")
        assert process.stdin is not None
        process.stdin.close()
        status = process.wait(60.0)
        assert process.stderr is not None
        said = process.stderr.read().decode()
    assert status == 1
    summary = re.search(r"(\d) of 4 records (?:was|were) not delivered; the first, line (\d) of standard input", said)
    acknowledged = re.search(r"acknowledged: (\d)", said)
    assert summary is not None, said
    assert acknowledged is not None, said
    assert int(acknowledged[1]) in (1, 2)
    assert int(summary[1]) == 4 - int(acknowledged[1])
    assert int(summary[2]) == int(acknowledged[1]) + 1
    assert "Traceback" not in said


def test_a_second_ctrl_c_gives_up(own_kafka: KafkaCluster, topic: str) -> None:
    own_kafka.create_topic(topic)
    with typing(own_kafka, topic) as process:
        write(process, b"one\n")
        eventually(lambda: own_kafka.admin.end_offsets(topic) == {0: 1}, 30.0, "a record")
        own_kafka.kill(1, signal.SIGSTOP)
        write(process, b"two\n")
        eventually(lambda: _unread(process) == 0, 10.0, "the line to be read")
        # The first press may still be on its way to Python when the next one comes; they are then one.
        for _ in range(5):
            process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(2.0)
                break
        assert process.returncode == 1
        assert process.stderr is not None
        assert b"given up: " in process.stderr.read()


def test_a_topic_that_is_not_there_is_named(kafka: KafkaCluster, topic: str) -> None:
    started = time.monotonic()
    done = run(kafka, topic, given=b"one\n")
    assert done.returncode == 1
    assert topic.encode() in done.stderr
    assert b"Traceback" not in done.stderr
    assert time.monotonic() - started < 12.0, "two answers of a broker are enough"


def test_a_record_that_is_too_large_is_named(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    done = run(kafka, topic, given=b"small\n" + b"x" * (2 << 20) + b"\n")
    assert done.returncode == 1
    assert b"line 2 of standard input: " in done.stderr
    assert topic.encode() in done.stderr
    assert b"max.request.size" in done.stderr
    assert b"acknowledged: 1" in done.stderr
    assert b"Traceback" not in done.stderr
