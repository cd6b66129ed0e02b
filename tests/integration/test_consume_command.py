"""`grete consume`: what a topic holds, on stdout."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.java import produce
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
