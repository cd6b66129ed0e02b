"""`grete topics`: for people and for programs."""

from __future__ import annotations

import os
import pty
import subprocess

import pytest

from tests.integration.administration import seen, settings
from tests.integration.commands import GRETE, grete
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka


def test_creates_lists_and_describes(kafka: KafkaCluster, topic: str) -> None:
    made = grete(kafka, "topics", "create", topic, "-p", "3", "-r", "1", "--config", "retention.ms=1000")
    assert (made.status, made.out) == (0, f"topic {topic} is created\n")
    assert settings(kafka.bootstrap_servers, topic)["retention.ms"] == "1000"

    lines = grete(kafka, "topics", "list").out.splitlines()
    assert lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICATION", "FACTOR"]
    assert [topic, "3", "1"] in [line.split() for line in lines]
    rows = grete(kafka, "topics", "list", "--json").rows
    assert {"topic": topic, "partitions": 3, "replication_factor": 1} in rows
    assert not any(row["topic"].startswith("__") for row in rows)

    shown = grete(kafka, "topics", "describe", topic).out
    assert shown.startswith(f"topic {topic}, id ")
    assert "  retention.ms = 1000\n" in shown
    assert [line.split() for line in shown.splitlines()[-3:]] == [[str(p), "1", "1", "1"] for p in range(3)]
    (row,) = grete(kafka, "topics", "describe", topic, "--json").rows
    assert (row["topic"], row["config"], len(row["partitions"])) == (topic, {"retention.ms": "1000"}, 3)
    assert row["partitions"][1]["leader"] == 1


def test_an_existing_topic_is_an_error_unless_it_is_welcome(kafka: KafkaCluster, topic: str) -> None:
    assert grete(kafka, "topics", "create", topic).status == 0
    again = grete(kafka, "topics", "create", topic)
    assert (again.status, again.out) == (1, "")
    assert again.err.startswith("Error: ")
    assert topic in again.err
    assert "TOPIC_ALREADY_EXISTS" in again.err
    welcome = grete(kafka, "topics", "create", topic, "--if-not-exists", "--json")
    assert (welcome.status, welcome.rows) == (0, [{"topic": topic, "created": False}])


def test_alters_partitions_and_settings(kafka: KafkaCluster, topic: str) -> None:
    grete(kafka, "topics", "create", topic, "-p", "1", "-c", "segment.ms=5000")
    options = ["--partitions", "4", "--set", "retention.ms=7", "--set", "cleanup.policy=compact", "-d", "segment.ms"]
    assert grete(kafka, "topics", "alter", topic, *options).status == 0
    (row,) = grete(kafka, "topics", "describe", topic, "--json").rows
    assert row["config"] == {"retention.ms": "7", "cleanup.policy": "compact"}
    assert len(row["partitions"]) == 4
    fewer = grete(kafka, "topics", "alter", topic, "--partitions", "2", "--set", "retention.ms=8")
    assert fewer.status == 1
    assert "INVALID_PARTITIONS" in fewer.err
    assert "the settings were changed before that" in fewer.err
    eventually(lambda: settings(kafka.bootstrap_servers, topic)["retention.ms"] == "8", 10.0, "the new setting")


def test_wrong_use_has_status_2(kafka: KafkaCluster, topic: str) -> None:
    for words in (
        ["alter", topic],
        ["alter", topic, "--set", "retention.ms"],
        ["create", topic, "--partitions", "0"],
        ["create", topic, "--timeout", "7"],
        ["offsets", topic, "--at", "noon"],
        ["describe"],
    ):
        done = grete(kafka, "topics", *words)
        assert (done.status, done.out) == (2, ""), words
        assert "Error: " in done.err


def test_deletes_only_when_that_is_meant(kafka: KafkaCluster, topic: str) -> None:
    grete(kafka, "topics", "create", topic)
    unconfirmed = grete(kafka, "topics", "delete", topic)
    assert unconfirmed.status == 2
    assert "--yes" in unconfirmed.err
    assert seen(kafka.bootstrap_servers, topic) is not None
    # One that is not there: nothing is deleted.
    wrong = grete(kafka, "topics", "delete", topic, f"{topic}-none", "--yes")
    assert wrong.status == 1
    assert f"{topic}-none" in wrong.err
    assert seen(kafka.bootstrap_servers, topic) is not None
    done = grete(kafka, "topics", "delete", topic, "--yes", "--json")
    assert done.rows == [{"topic": topic, "deleted": True}]
    assert seen(kafka.bootstrap_servers, topic) is None


@pytest.mark.parametrize(("answer", "status"), [(b"n\n", 1), (b"y\n", 0)])
def test_asks_on_a_terminal(kafka: KafkaCluster, topic: str, answer: bytes, status: int) -> None:
    grete(kafka, "topics", "create", topic)
    ours, theirs = pty.openpty()
    try:
        os.write(ours, answer)
        command = [GRETE, "topics", "delete", topic, "--bootstrap", kafka.bootstrap_servers]
        done = subprocess.run(command, stdin=theirs, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == status
    assert f"Delete {topic} with all records?" in done.stderr
    assert (seen(kafka.bootstrap_servers, topic) is None) == (status == 0)


def test_shows_offsets(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    rows = grete(kafka, "topics", "offsets", topic, "--json").rows
    assert rows == [{"partition": p, "start": 0, "end": 100, "offsets": 100} for p in range(2)]
    for place, offset in (("earliest", 0), ("latest", 100), ("2000-01-01", 0), ("2100-01-01T12:00:00+02:00", 100)):
        rows = grete(kafka, "topics", "offsets", topic, "--at", place, "--json").rows
        assert rows == [{"partition": p, "offset": offset} for p in range(2)]


def test_errors_are_one_line(kafka: KafkaCluster, topic: str) -> None:
    for words in (["describe", topic], ["offsets", topic], ["alter", topic, "--set", "retention.ms=1"]):
        done = grete(kafka, "topics", *words)
        assert (done.status, done.out) == (1, "")
        (line,) = done.err.splitlines()
        assert line.startswith("Error: ")
        assert topic in line


def test_no_broker_ends_in_time() -> None:
    command = [GRETE, "topics", "list", "--bootstrap", "127.0.0.1:1", "--timeout", "500ms"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=20)
    assert done.returncode == 1
    assert "bootstrap.servers" in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
