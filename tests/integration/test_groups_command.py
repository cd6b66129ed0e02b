"""`grete groups`: for people and for programs."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition

from tests.integration.administration import PROTOCOLS, member
from tests.integration.commands import GRETE, grete
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.processes import end, spawn

pytestmark = pytest.mark.kafka


@pytest.fixture
def filled(kafka: KafkaCluster, topic: str) -> str:
    """A topic of two partitions with a hundred records each."""
    kafka.create_topic(topic, partitions=2)
    fill(kafka.bootstrap_servers, topic, 200, partitions=2)
    return topic


def reset(kafka: KafkaCluster, group: str, *words: str) -> list[tuple[int, int | None, int]]:
    """(partition, before, after) of `grete groups reset`."""
    done = grete(kafka, "groups", "reset", group, *words, "--json")
    assert done.status == 0, done.err
    assert ("nothing is changed" in done.err) == ("--dry-run" in words)
    assert (" reset\n" in done.err) == ("--yes" in words)
    return [(row["partition"], row["before"], row["after"]) for row in done.rows]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_lists_and_describes_a_group(kafka: KafkaCluster, filled: str, group: str, protocol: str) -> None:
    with member(kafka, filled, group, protocol) as consumer:
        consumer.commit(asynchronous=False)
        listed = [row for row in grete(kafka, "groups", "list", "--json").rows if row["group"] == group]
        assert [(row["state"], row["type"], row["protocol_type"]) for row in listed] == [
            ("Stable", protocol, "consumer")
        ]
        assert group in grete(kafka, "groups", "list", "--state", "Stable").out
        assert group not in grete(kafka, "groups", "list", "--state", "Empty").out

        (row,) = grete(kafka, "groups", "describe", group, "--json").rows
        assert (row["group"], row["state"], row["protocol"]) == (group, "Stable", protocol)
        (only,) = row["members"]
        assert only["client"] == "foreign"
        committed = kafka.admin.committed(group)
        for partition in row["partitions"]:
            at = committed.get((filled, partition["partition"]))
            assert (partition["committed"], partition["end"], partition["member"]) == (at, 100, only["id"])
            assert partition["lag"] == (None if at is None else 100 - at)
        assert len(row["partitions"]) == 2

        lines = grete(kafka, "groups", "describe", group).out.splitlines()
        assert lines[0].startswith(f"group {group}: Stable, {protocol} protocol")
        assert lines[1].split() == ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER", "MEMBER", "ID"]
        assert [line.split()[:2] for line in lines[2:]] == [[filled, "0"], [filled, "1"]]
        assert all("foreign@127.0.0.1" in line for line in lines[2:])


def test_a_reset_is_shown_before_it_is_done(kafka: KafkaCluster, filled: str, group: str) -> None:
    change = ["--topic", filled, "--to", "earliest"]
    assert reset(kafka, group, *change, "--dry-run") == [(0, None, 0), (1, None, 0)]
    unconfirmed = grete(kafka, "groups", "reset", group, *change)
    assert (unconfirmed.status, "--yes" in unconfirmed.err) == (2, True)
    shown = [line.split() for line in unconfirmed.out.splitlines()[1:]]
    assert shown == [[filled, "0", "-", "0"], [filled, "1", "-", "0"]]
    assert kafka.admin.committed(group) == {}
    assert reset(kafka, group, "--topic", filled, "--to", "40", "--yes") == [(0, None, 40), (1, None, 40)]
    assert kafka.admin.committed(group) == {(filled, 0): 40, (filled, 1): 40}


def test_resets_to_every_kind_of_place(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--yes")
    one = f"{filled}:1"
    for option, place, after in (
        ("--to", "latest", 100),
        ("--to", "earliest", 0),
        ("--to", "70", 70),
        ("--by", "-30", 40),
        ("--by", "+50", 90),
        ("--by", "+50", 100),
        ("--to", "-10", 90),
        ("--to", "-5000", 0),
        ("--by", "+20", 20),
        ("--by", "-5000", 0),
        ("--to", "2100-01-01T00:00", 100),
        ("--to", "2000-01-01", 0),
        ("--to", "0s", 100),
        ("--to", "100000h", 0),
    ):
        assert reset(kafka, group, "--topic", one, option, place, "--yes")[0][::2] == (1, after)
    assert kafka.admin.committed(group) == {(filled, 0): 40, (filled, 1): 0}
    assert reset(kafka, group, "--all-topics", "--to", "latest", "--yes") == [(0, 40, 100), (1, 0, 100)]
    assert reset(kafka, group, "-t", f"{filled}:0,1", "--to", "7", "--yes") == [(0, 100, 7), (1, 100, 7)]


def test_says_why_a_reset_cannot_be(kafka: KafkaCluster, filled: str, group: str) -> None:
    for words, says in (
        (["--topic", filled, "--to", "101"], "from 0 to 100"),
        (["--topic", f"{filled}:7", "--to", "latest"], f"{filled}[7]"),
        (["--topic", f"{filled}-none", "--to", "latest"], f"{filled}-none"),
        (["--topic", filled, "--by", "-1"], "no committed offset"),
        (["--all-topics", "--to", "latest"], "no offsets"),
    ):
        done = grete(kafka, "groups", "reset", group, *words, "--yes")
        assert (done.status, done.out) == (1, "")
        assert says in done.err
    for words in (
        ["--to", "latest"],
        ["--topic", filled, "--all-topics", "--to", "latest"],
        ["--topic", filled],
        ["--topic", filled, "--to", "yesterday"],
        ["--topic", filled, "--by", "1"],
        ["--topic", filled, "--by", "-1", "--to", "latest"],
        ["--topic", f"{filled}:x", "--to", "latest"],
    ):
        assert grete(kafka, "groups", "reset", group, *words).status == 2, words
    assert kafka.admin.committed(group) == {}


def test_a_group_with_members_is_left_alone(kafka: KafkaCluster, filled: str, group: str) -> None:
    with member(kafka, filled, group, "classic"):
        for words in (
            ["reset", group, "--topic", filled, "--to", "earliest", "--yes"],
            ["delete", group, "--yes"],
            ["delete-offsets", group, "--topic", filled, "--yes"],
        ):
            done = grete(kafka, "groups", *words)
            assert done.status == 1
            assert group in done.err
            assert "stop" in done.err


def test_forgets_and_deletes(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--yes")
    assert grete(kafka, "groups", "delete-offsets", group, "--topic", f"{filled}:0").status == 2, "no terminal"
    done = grete(kafka, "groups", "delete-offsets", group, "--topic", f"{filled}:0", "--yes", "--json")
    assert done.rows == [{"topic": filled, "partition": 0, "deleted": True}]
    assert kafka.admin.committed(group) == {(filled, 1): 40}
    assert grete(kafka, "groups", "delete", group).status == 2
    assert grete(kafka, "groups", "delete", group, "--yes").out == f"group {group} is deleted\n"
    assert kafka.admin.committed(group) == {}
    for words in (["delete", group, "--yes"], ["describe", group]):
        done = grete(kafka, "groups", *words)
        assert (done.status, done.out) == (1, "")
        assert group in done.err
        assert "GROUP_ID_NOT_FOUND" in done.err


def test_shows_what_would_be_deleted(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--yes")
    done = grete(kafka, "groups", "delete", group, "--dry-run", "--json")
    assert (done.status, done.rows) == (0, [{"group": group, "deleted": False}])
    done = grete(kafka, "groups", "delete-offsets", group, "--topic", f"{filled}:1", "--dry-run", "--json")
    assert done.rows == [{"topic": filled, "partition": 1, "deleted": False}]
    assert "nothing is changed" in done.err
    assert kafka.admin.committed(group) == {(filled, 0): 40, (filled, 1): 40}


def test_lag_is_one_line_a_group(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--yes")
    reset(kafka, group, "--topic", f"{filled}:1", "--to", "90", "--yes")
    line = f"{group}  lag 70  (2 partitions of {filled}; most in {filled}[0]: 60)\n"
    assert grete(kafka, "lag", group).out == line
    assert line in grete(kafka, "lag").out
    (row,) = grete(kafka, "lag", group, "--json").rows
    assert row == {"group": group, "lag": 70, "topics": [filled], "partitions": 2, "unknown": 0}
    unknown = grete(kafka, "lag", f"{group}-none")
    assert (unknown.status, unknown.out) == (1, "")
    assert f"{group}-none" in unknown.err


def test_lag_without_a_committed_offset_is_unknown(kafka: KafkaCluster, filled: str, group: str) -> None:
    with member(kafka, filled, group, "classic") as consumer:
        why = f"(2 partitions of {filled}; unknown: no committed offset)"
        assert grete(kafka, "lag", group).out == f"{group}  lag -  {why}\n"
        assert f"{group}  lag -  {why}\n" in grete(kafka, "lag").out, "a group that has only members is listed"
        (row,) = grete(kafka, "lag", group, "--json").rows
        assert row == {"group": group, "lag": None, "topics": [filled], "partitions": 2, "unknown": 2}

        consumer.commit(offsets=[TopicPartition(filled, 0, 40)], asynchronous=False)
        line = f"{group}  lag 60  (2 partitions of {filled}; unknown in {filled}[1]: no committed offset)\n"
        assert grete(kafka, "lag", group).out == line
        (row,) = grete(kafka, "lag", group, "--json").rows
        assert (row["lag"], row["unknown"]) == (60, 1)
        consumer.commit(offsets=[TopicPartition(filled, 1, 100)], asynchronous=False)
        assert grete(kafka, "lag", group, "--json").rows[0]["unknown"] == 0


def test_lag_of_a_group_without_offsets_and_members_is_unknown(kafka: KafkaCluster, filled: str, group: str) -> None:
    with member(kafka, filled, group, "classic"):
        pass  # a member that left: the group is empty, and stays for a while
    done = grete(kafka, "lag", group)
    assert done.out == f"{group}  lag -  (unknown: no committed offset, and no partition assigned)\n"
    (row,) = grete(kafka, "lag", group, "--json").rows
    assert row == {"group": group, "lag": None, "topics": [], "partitions": 0, "unknown": 0}


def test_lag_is_watched_until_ctrl_c(kafka: KafkaCluster, filled: str, group: str, tmp_path: Path) -> None:
    reset(kafka, group, "--topic", f"{filled}:0", "--to", "40", "--yes")
    words = ["lag", group, "--watch", "--interval", "100ms", "--json", "--bootstrap", kafka.bootstrap_servers]
    printed = tmp_path / "out"
    with printed.open("wb") as out:
        process = spawn([GRETE, *words], stdout=out)
    try:
        eventually(lambda: printed.read_bytes().count(b"\n") >= 2, 60.0, "two lines")
        reset(kafka, group, "--topic", f"{filled}:0", "--to", "41", "--yes")
        eventually(lambda: b'"lag":59' in printed.read_bytes(), 60.0, "the new lag")
        process.send_signal(signal.SIGINT)
        assert process.wait(60.0) == 0
    finally:
        end(process)
    rows = [json.loads(line) for line in printed.read_text().splitlines()]
    assert [rows[0]["lag"], rows[0]["change_per_second"], rows[-1]["lag"]] == [60, None, 59]
    assert min(row["change_per_second"] for row in rows[1:]) < 0
