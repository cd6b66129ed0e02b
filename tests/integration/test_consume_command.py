"""`grete consume`: what a topic holds, on stdout."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.integration.commands import grete as run_grete
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.foreign_producer import produce
from tests.kafka.processes import end, spawn

pytestmark = pytest.mark.kafka
GRETE = str(Path(sys.executable).parent / "grete")


def consume(kafka: KafkaCluster, *arguments: str) -> str:
    command = [GRETE, "consume", "--bootstrap", kafka.bootstrap_servers, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_prints_all_of_a_topic_as_json(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)
    produce(kafka, topic, 300, partitions=3, keys=5, headers="mixed", size=8, nulls=100)
    lines = consume(kafka, topic, "--from", "earliest", "--until-end", "--json").splitlines()
    rows = [json.loads(line) for line in lines]
    assert sorted((row["partition"], row["offset"]) for row in rows) == [(p, o) for p in range(3) for o in range(100)]
    assert {row["topic"] for row in rows} == {topic}
    for row in rows:
        index = row["offset"] * 3 + row["partition"]
        assert row["key"] == f"key-{index % 5}"
        assert {"name": "Käfer", "value": "Gregor"} in row["headers"]
        # Eight bytes big endian are UTF-8 here or come as base64; each hundredth is null.
        assert ("value" in row) != ("value_base64" in row)
        if index % 100 == 0:
            assert row["value"] is None


def test_one_partition_from_an_offset_with_a_limit(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    arguments = (topic, "--partition", "1", "--from", "40", "--limit", "7", "--json")
    rows = [json.loads(line) for line in consume(kafka, *arguments).splitlines()]
    assert [(row["partition"], row["offset"]) for row in rows] == [(1, offset) for offset in range(40, 47)]


def test_an_empty_topic_ends_at_once(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    assert consume(kafka, topic, "--from", "earliest", "--until-end") == ""


def test_ends_after_control_records(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, 20, transaction=10, abort=1, properties={"transactional.id": topic})
    committed = ("--kafka", "isolation.level=read_committed")
    assert consume(kafka, topic, "--from", "earliest", "--until-end", *committed) == ""


def test_follows_a_topic_until_ctrl_c(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    printed = tmp_path / "out"
    with printed.open("wb") as out, (tmp_path / "err").open("wb") as err:
        command = [GRETE, "consume", "--bootstrap", kafka.bootstrap_servers, topic, "--from", "earliest", "--json"]
        process = spawn(command, stdout=out, stderr=err)
    try:
        eventually(lambda: printed.read_bytes().count(b"\n") == 10, 30.0, "ten lines")
        fill(kafka.bootstrap_servers, topic, 10, first_index=10)
        eventually(lambda: printed.read_bytes().count(b"\n") == 20, 30.0, "twenty lines")
        process.send_signal(signal.SIGINT)
        assert process.wait(10.0) == 0, (tmp_path / "err").read_text()
    finally:
        end(process)


def test_a_group_commits_what_was_printed(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 20)
    arguments = (topic, "--group", group, "--from", "earliest", "--limit", "10", "--json")
    first = [json.loads(line)["offset"] for line in consume(kafka, *arguments).splitlines()]
    second = [json.loads(line)["offset"] for line in consume(kafka, *arguments).splitlines()]
    assert first == list(range(10))
    assert second == list(range(10, 20))
    assert kafka.admin.committed(group) == {(topic, 0): 20}


def test_a_topic_that_is_not_there_is_named(kafka: KafkaCluster, topic: str) -> None:
    command = [GRETE, "consume", "--bootstrap", kafka.bootstrap_servers, topic, "--until-end"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode != 0
    assert topic in done.stderr
    assert "Traceback" not in done.stderr


@pytest.fixture
def filled(kafka: KafkaCluster, topic: str) -> str:
    """A topic of two partitions with a hundred records each."""
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    return topic


def offsets(kafka: KafkaCluster, topic: str, position: str) -> tuple[list[tuple[int, int]], str]:
    words = ["consume", topic, "--until-end", "--from", position, "--format", "{partition} {offset}"]
    done = run_grete(kafka, *words)
    assert done.status == 0, done.err
    found = [line.split() for line in done.out.splitlines()]
    return sorted((int(partition), int(offset)) for partition, offset in found), done.err


@pytest.mark.parametrize(
    ("position", "first", "says"),
    [
        ("-10", 90, "20 records, 2 partitions\n"),
        ("1h", 0, "200 records, 2 partitions\n"),
        ("0s", 100, "0 records\n"),
        ("2000-01-01", 0, "200 records, 2 partitions\n"),
        ("99", 99, "2 records, 2 partitions\n"),
        ("999999999", 100, "offset 999999999 is beyond the end of 2 partitions of {topic} "),
    ],
)
def test_begins_at_any_position(kafka: KafkaCluster, filled: str, position: str, first: int, says: str) -> None:
    found, err = offsets(kafka, filled, position)
    assert found == [(partition, offset) for partition in range(2) for offset in range(first, 100)]
    assert err.startswith(says.format(topic=filled))


def test_the_same_positions_in_other_commands(kafka: KafkaCluster, filled: str) -> None:
    for position, offset in (("-10", 90), ("1h", 0), ("0s", 100), ("99", 99), ("earliest", 0)):
        rows = run_grete(kafka, "topics", "offsets", filled, "--at", position, "--json").rows
        assert rows == [{"partition": partition, "offset": offset} for partition in range(2)]


def test_a_tail_follows_and_says_how_much_it_was(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=2)
    for partition in ("0", "1"):
        assert run_grete(kafka, "produce", topic, "-p", partition, answer="line\n" * 100).status == 0
    printed = tmp_path / "out"
    words = ["consume", topic, "--from", "-3", "--key-separator", r"\t", "--bootstrap", kafka.bootstrap_servers]
    with printed.open("wb") as out, (tmp_path / "err").open("wb") as err:
        process = spawn([GRETE, *words], stdout=out, stderr=err)
    try:
        eventually(lambda: printed.read_bytes().count(b"\n") == 6, 60.0, "six lines")
        produced = run_grete(kafka, "produce", topic, "--key-separator", r"\t", answer="k\tv\n")
        assert produced.err == f"1 record written to {topic}, 1 partition\n"
        eventually(lambda: b"k\tv\n" in printed.read_bytes(), 60.0, "a line")
        process.send_signal(signal.SIGINT)
        assert process.wait(60.0) == 0
    finally:
        end(process)
    assert (tmp_path / "err").read_text() == "7 records, 2 partitions\n"


def test_json_values_come_back_as_they_were(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    value = '{"id": 7, "price": 1.10}'
    assert run_grete(kafka, "produce", topic, answer=f"{value}\nplain\n").status == 0
    words = ["consume", topic, "--until-end", "--json", "--quiet"]
    shown = run_grete(kafka, *words)
    assert (shown.err, [row["value"] for row in shown.rows]) == ("", [{"id": 7, "price": 1.1}, "plain"])
    exact = run_grete(kafka, *words, "--exact")
    assert [row["value"] for row in exact.rows] == [value, "plain"]
    # Both can be written again: the exact ones byte for byte.
    assert run_grete(kafka, "produce", topic, "--json", answer=shown.out + exact.out).status == 0
    values = run_grete(kafka, "consume", topic, "--until-end", "--from", "2").out.splitlines()
    assert values == ['{"id":7,"price":1.1}', "plain", value, "plain"]


def test_a_group_names_a_topic_that_is_not_there(kafka: KafkaCluster, topic: str, group: str) -> None:
    done = run_grete(kafka, "consume", topic, "--group", group)
    assert (done.status, topic in done.err.splitlines()[-1]) == (1, True)


def test_a_port_that_does_not_speak_kafka_is_named_while_the_command_waits(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent, (tmp_path / "err").open("wb") as err:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        process = spawn([GRETE, "consume", "orders", "--bootstrap", address], stderr=err)
        try:
            said = f"bootstrap address {address} cannot be reached"
            eventually(lambda: said in (tmp_path / "err").read_text(), 60.0, "the log line")
            assert process.poll() is None, "it goes on trying"
        finally:
            end(process)
    assert "use the port of a Kafka listener" in (tmp_path / "err").read_text()
