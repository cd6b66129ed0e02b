"""`grete groups`: for people and for programs."""

from __future__ import annotations

import pytest

from tests.integration.administration import member
from tests.integration.commands import grete
from tests.kafka import KafkaCluster, fill

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
    assert ("nothing is changed yet" in done.err) == ("--execute" not in words)
    return [(row["partition"], row["before"], row["after"]) for row in done.rows]


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_lists_and_describes_a_group(kafka: KafkaCluster, filled: str, group: str, protocol: str) -> None:
    with member(kafka, filled, group, protocol) as consumer:
        consumer.commit(asynchronous=False)
        listed = [row for row in grete(kafka, "groups", "list", "--json").rows if row["group"] == group]
        assert [(row["state"], row["kind"], row["members_are"]) for row in listed] == [("Stable", protocol, "consumer")]
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
    assert reset(kafka, group, "--topic", filled, "--to", "earliest") == [(0, None, 0), (1, None, 0)]
    assert kafka.admin.committed(group) == {}
    assert reset(kafka, group, "--topic", filled, "--to", "40", "--execute") == [(0, None, 40), (1, None, 40)]
    assert kafka.admin.committed(group) == {(filled, 0): 40, (filled, 1): 40}


def test_resets_to_every_kind_of_place(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--execute")
    one = f"{filled}:1"
    for place, after in (
        ("latest", 100),
        ("earliest", 0),
        ("70", 70),
        ("-30", 40),
        ("+50", 90),
        ("+50", 100),
        ("-5000", 0),
        ("2100-01-01T00:00", 100),
        ("2000-01-01", 0),
    ):
        assert reset(kafka, group, "--topic", one, "--to", place, "--execute")[0][::2] == (1, after)
    assert kafka.admin.committed(group) == {(filled, 0): 40, (filled, 1): 0}
    assert reset(kafka, group, "--all-topics", "--to", "latest", "--execute") == [(0, 40, 100), (1, 0, 100)]
    assert reset(kafka, group, "-t", f"{filled}:0,1", "--to", "7", "--execute") == [(0, 100, 7), (1, 100, 7)]


def test_says_why_a_reset_cannot_be(kafka: KafkaCluster, filled: str, group: str) -> None:
    for words, says in (
        (["--topic", filled, "--to", "101"], "from 0 to 100"),
        (["--topic", f"{filled}:7", "--to", "latest"], f"{filled}[7]"),
        (["--topic", f"{filled}-none", "--to", "latest"], f"{filled}-none"),
        (["--topic", filled, "--to", "-1"], "nothing"),
        (["--all-topics", "--to", "latest"], "no offsets"),
    ):
        done = grete(kafka, "groups", "reset", group, *words, "--execute")
        assert (done.status, done.out) == (1, "")
        assert says in done.err
    for words in (
        ["--to", "latest"],
        ["--topic", filled, "--all-topics", "--to", "latest"],
        ["--topic", filled],
        ["--topic", filled, "--to", "yesterday"],
        ["--topic", f"{filled}:x", "--to", "latest"],
    ):
        assert grete(kafka, "groups", "reset", group, *words).status == 2, words
    assert kafka.admin.committed(group) == {}


def test_a_group_with_members_is_left_alone(kafka: KafkaCluster, filled: str, group: str) -> None:
    with member(kafka, filled, group, "classic"):
        for words in (
            ["reset", group, "--topic", filled, "--to", "earliest", "--execute"],
            ["delete", group, "--yes"],
            ["delete-offsets", group, "--topic", filled, "--yes"],
        ):
            done = grete(kafka, "groups", *words)
            assert done.status == 1
            assert group in done.err
            assert "stop" in done.err


def test_forgets_and_deletes(kafka: KafkaCluster, filled: str, group: str) -> None:
    reset(kafka, group, "--topic", filled, "--to", "40", "--execute")
    assert grete(kafka, "groups", "delete-offsets", group, "--topic", f"{filled}:0").status == 2, "nobody to ask"
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
