"""`grete dlq`: what has failed is listed, shown, sent back where it came from, and deleted."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

import grete
from grete._dlq import header_names
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.commands import GRETE, Done
from tests.integration.commands import grete as run_grete
from tests.integration.dead_letter_topics import FAILED, everything, failure, values, write_letters
from tests.integration.producers import producer
from tests.kafka import KafkaCluster, eventually
from tests.kafka.processes import end, spawn

pytestmark = pytest.mark.kafka


@pytest.fixture
def dlq(kafka: KafkaCluster, topic: str) -> str:
    """An empty dead letter topic of two partitions, for the records of `topic`, which has two as well."""
    kafka.create_topic(topic, partitions=2)
    name = f"{topic}.dlq"
    kafka.create_topic(name, partitions=2)
    return name


def call(kafka: KafkaCluster, *words: str, status: int = 0) -> Done:
    done = run_grete(kafka, "dlq", *words)
    assert done.status == status, done.err
    return done


def replay(kafka: KafkaCluster, dlq: str, *words: str) -> dict[str, Any]:
    (row,) = call(kafka, "replay", dlq, "--yes", "--json", *words).rows
    return row


def group_of(dlq: str) -> str:
    return f"grete-dlq-replay.{dlq}"


def test_what_a_handler_could_not_do_comes_back_when_it_can(kafka: KafkaCluster, topic: str, group: str) -> None:
    dlq = f"{topic}.dlq"
    kafka.create_topic(topic, partitions=1)
    kafka.create_topic(dlq, partitions=1)
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, [b"%d" % at for at in range(10)], key=b"k").wait(30)
    broken = True
    done: list[int] = []

    def handler(message: grete.Message) -> None:
        number = int(message.value or b"-1")
        if broken and number in (3, 7):
            raise ValueError("the bank is closed")
        done.append(number)

    app = make(kafka, group)
    app.consumer(topic, retry=FAST, dead_letter=dlq)(handler)
    with running(app):
        until_done(kafka, app, topic)
        listed = call(kafka, "list", dlq, "--json").rows
        assert [(row["source_topic"], row["source_partition"], row["source_offset"]) for row in listed] == [
            (topic, 0, 3),
            (topic, 0, 7),
        ]
        assert {(row["error_class"], row["error_message"], row["attempts"], row["group"]) for row in listed} == {
            ("ValueError", "the bank is closed", 3, group)
        }
        # Still broken: each is written to the dead letters again, and is not sent a second time by the same replay.
        assert replay(kafka, dlq) == {"replayed": 2, "before": 0, "to": {topic: 2}, "complete": True}
        until_done(kafka, app, topic)
        again = dead_letters(kafka, dlq)[2:]
        assert [header(message, header_names.REPLAYED) for message in again] == ["1", "1"]
        assert [header(message, header_names.SOURCE_OFFSET) for message in again] == ["10", "11"]
        broken = False
        assert replay(kafka, dlq) == {"replayed": 2, "before": 2, "to": {topic: 2}, "complete": True}
        until_done(kafka, app, topic)
    assert sorted(done) == list(range(10))
    assert len(dead_letters(kafka, dlq)) == 4, "a replay deletes nothing"


def test_a_replayed_record_is_the_one_that_failed(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    own: list[tuple[str, bytes | None]] = [("trace", b"1"), ("none", None), ("trace", b"\xff")]
    with producer(kafka.bootstrap_servers) as target:
        records: list[Any] = [
            (
                b"\xfe",
                b"whole\x00",
                [*own, *failure(topic, 5, partition=1), (header_names.REPLAYED, b"4")],
                1_600_000_000_000,
            ),
            (None, None, failure(topic, 6, partition=99), 1_600_000_000_001),
        ]
        target.produce_many(dlq, records, partition=0).wait(30)
    assert replay(kafka, dlq)["replayed"] == 2
    (first,) = [m for rows in everything(kafka, topic).values() for m in rows if m.key == b"\xfe"]
    assert (first.partition, first.value, first.timestamp) == (1, b"whole\x00", 1_600_000_000_000)
    assert first.headers == (*own, (header_names.REPLAYED, b"5"))
    (second,) = [m for rows in everything(kafka, topic).values() for m in rows if m.key is None]
    assert (second.value, second.timestamp, second.headers) == (
        None,
        1_600_000_000_001,
        ((header_names.REPLAYED, b"1"),),
    )


def test_what_was_replayed_is_not_replayed_again(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    kinds = ["app.PaymentError", "builtins.KeyError", "app.PaymentError", "KeyError"]
    write_letters(kafka, dlq, [failure(topic, at, error=kind) for at, kind in enumerate(kinds)])
    write_letters(kafka, dlq, [failure(topic, 9, partition=1)], partition=1)
    assert replay(kafka, dlq, "--partition", "0", "--offset", "2")["replayed"] == 1
    assert values(kafka, topic) == [2]
    assert replay(kafka, dlq, "--error", "PaymentError", "--source", f"{topic}:0")["replayed"] == 1
    assert values(kafka, topic) == [2, 0]
    shown = call(kafka, "replay", dlq, "--dry-run", "--json")
    assert {(row["error"], row["count"]) for row in shown.rows} == {
        ("KeyError", 1),
        ("builtins.KeyError", 1),
        ("app.PaymentError", 1),
    }
    assert "2 more were replayed before" in shown.err
    assert values(kafka, topic) == [2, 0], "a dry run sends nothing"
    assert replay(kafka, dlq, "--error", "Key*") == {"replayed": 2, "before": 0, "to": {topic: 2}, "complete": True}
    assert replay(kafka, dlq) == {"replayed": 1, "before": 4, "to": {topic: 1}, "complete": True}
    assert values(kafka, topic) == [2, 0, 1, 3]
    assert kafka.admin.committed(group_of(dlq)) == {(dlq, 0): 4, (dlq, 1): 1}
    assert replay(kafka, dlq)["replayed"] == 0
    write_letters(kafka, dlq, [failure(topic, 10)])
    assert replay(kafka, dlq)["replayed"] == 1
    # Another name remembers nothing of all that.
    assert replay(kafka, dlq, "--group", f"{dlq}-again", "--partition", "0")["replayed"] == 5


def test_a_replay_elsewhere_leaves_the_real_one_to_be_done(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    elsewhere = f"{topic}.try"
    kafka.create_topic(elsewhere, partitions=1)
    write_letters(kafka, dlq, [failure(topic, at) for at in range(3)])
    assert replay(kafka, dlq, "--to", elsewhere)["to"] == {elsewhere: 3}
    assert replay(kafka, dlq, "--to", elsewhere)["replayed"] == 0
    assert replay(kafka, dlq)["to"] == {topic: 3}
    assert values(kafka, elsewhere) == values(kafka, topic) == [0, 1, 2]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_an_interrupted_replay_goes_on(
    kafka: KafkaCluster, dlq: str, topic: str, how: signal.Signals, tmp_path: Path
) -> None:
    count = 400
    write_letters(kafka, dlq, [failure(topic, at) for at in range(count)])
    # So slow that it is in the middle for a minute.
    words = ["dlq", "replay", dlq, "--yes", "--rate", "6/s", "--bootstrap", kafka.bootstrap_servers]
    with (tmp_path / "err").open("wb") as err:
        process = spawn([GRETE, *words], stderr=err)
        try:
            eventually(lambda: kafka.admin.committed(group_of(dlq)).get((dlq, 0), 0) > 20, 30.0, "a commit")
            process.send_signal(how)
            status = process.wait(20.0)
        finally:
            end(process)
    committed, sent = kafka.admin.committed(group_of(dlq))[dlq, 0], kafka.admin.end_offsets(topic)[0]
    assert 20 < committed <= sent < count
    said = (tmp_path / "err").read_text()
    assert "Traceback" not in said
    if how == signal.SIGINT:
        assert status == 130
        assert committed == sent, "what was sent is acknowledged and remembered"
        assert "goes on from here" in said
    assert replay(kafka, dlq)["replayed"] == count - committed
    assert values(kafka, topic) == [*range(sent), *range(committed, count)]


def test_progress_of_another_replay_is_noticed(kafka: KafkaCluster, dlq: str, topic: str, tmp_path: Path) -> None:
    write_letters(kafka, dlq, [failure(topic, at) for at in range(400)])
    words = ["dlq", "replay", dlq, "--yes", "--rate", "20/s", "--bootstrap", kafka.bootstrap_servers]
    with (tmp_path / "err").open("wb") as err:
        process = spawn([GRETE, *words], stderr=err)
        try:
            eventually(lambda: (dlq, 0) in kafka.admin.committed(group_of(dlq)), 30.0, "a commit")
            # As another replay does that has overtaken this one.
            reset = ["groups", "reset", group_of(dlq), "--topic", f"{dlq}:0", "--to", "390", "--yes"]
            assert run_grete(kafka, *reset).status == 0
            assert process.wait(20.0) == 1
        finally:
            end(process)
    assert "another replay is at work" in (tmp_path / "err").read_text()
    assert kafka.admin.committed(group_of(dlq)) == {(dlq, 0): 390}, "it is not taken back"
    assert replay(kafka, dlq)["replayed"] == 10


def test_a_record_that_cannot_be_delivered_ends_a_replay(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    tight = f"{topic}.tight"
    kafka.create_topic(tight, partitions=1, config={"max.message.bytes": 2000})
    with producer(kafka.bootstrap_servers) as target:
        records = [(None, b"1" if at != 5 else b"x" * 9000, failure(topic, at)) for at in range(10)]
        for record in records:
            target.produce_many(dlq, [record], partition=0).wait(30)
    done = call(kafka, "replay", dlq, "--to", tight, "--yes", "-k", "linger.ms=0", "--rate", "20/s", status=1)
    assert f"{dlq}[0] offset 5 was not written to {tight}" in done.err
    assert "replayed before that: " in done.err
    assert kafka.admin.committed(f"{group_of(dlq)}?to={tight}") == {(dlq, 0): 5}
    kafka.admin.delete_topic(tight)


def test_lists_with_filters_and_summary(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    letters = [failure(topic, at, error="KeyError" if at % 2 else "app.PaymentError", second=at) for at in range(10)]
    write_letters(kafka, dlq, letters)
    write_letters(kafka, dlq, [failure("clicks", 1)], partition=1)

    def offsets(*words: str) -> list[int]:
        return [row["source_offset"] for row in call(kafka, "list", dlq, "--json", *words).rows]

    assert offsets("--partition", "0") == list(range(10))
    assert offsets("--error", "PaymentError", "--source", topic) == [0, 2, 4, 6, 8]
    assert offsets("--source", "clicks") == [1]
    assert offsets("--since", FAILED % 7) == [7, 8, 9]
    assert offsets("--since", "1h") == []
    assert offsets("--limit", "2") == [0, 1]
    assert call(kafka, "list", dlq, "--summary", "--json").rows == [
        {"source": topic, "error": "app.PaymentError", "count": 5},
        {"source": topic, "error": "KeyError", "count": 5},
        {"source": "clicks", "error": "app.PaymentError", "count": 1},
    ]
    done = call(kafka, "list", dlq, "--limit", "2")
    lines = done.out.splitlines()
    assert lines[0].split()[:3] == ["PARTITION", "OFFSET", "SOURCE"]
    assert (
        lines[1].split()
        == ["0", "0", f"{topic}[0]@0", "billing", "5", "app.PaymentError", "no", "0"] + ["2026-01-31T12:00:00Z"] * 2
    )
    assert len(lines) == 3
    assert "and 9 more" in done.err


def test_shows_one_whole(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    with producer(kafka.bootstrap_servers) as target:
        record_headers: list[Any] = [("trace", b"1"), *failure(topic, 17)]
        values_sent = [b'{"amount": 3}', b"two\nlines \x1b", b"\xff\x00raw", None]
        target.produce_many(dlq, [(b"ada", value, record_headers) for value in values_sent], partition=0).wait(30)
        target.produce_many(dlq, [b"plain"], partition=0).wait(30)
    lines = call(kafka, "show", dlq, "0", "0").out.splitlines()
    for line in (
        f"{dlq}[0] offset 0",
        f"from       {topic}[0]@17, group billing",
        "failed     after 5 attempts, 2026-01-31T12:00:00.000Z to 2026-01-31T12:00:00.000Z",
        "error      app.PaymentError",
        "  no 17",
        "  trace: 1",
        "  ada",
        '    "amount": 3',
    ):
        assert line in lines
    assert "  lines \\x1b" in call(kafka, "show", dlq, "0", "1", "--as", "text").out.splitlines()
    assert "00000000  ff 00 72 61 77" in call(kafka, "show", dlq, "0", "2").out
    assert "value      null" in call(kafka, "show", dlq, "0", "3").out
    assert "it is no JSON" in call(kafka, "show", dlq, "0", "1", "--as", "json", status=1).err
    (row,) = call(kafka, "show", dlq, "0", "0", "--json").rows
    assert (row["key"], row["value"], row["failure"]["source_offset"]) == ("ada", {"amount": 3}, 17)
    done = call(kafka, "show", dlq, "0", "4")
    assert "plain" in done.out
    assert "no dead letter" in done.err
    assert "holds offsets 0 to 4" in call(kafka, "show", dlq, "0", "5", status=1).err
    assert "no partition 7" in call(kafka, "show", dlq, "7", "0", status=1).err


def test_purges_what_is_asked_for(kafka: KafkaCluster, dlq: str, topic: str) -> None:
    write_letters(kafka, dlq, [failure(topic, at, second=at) for at in range(20)])
    write_letters(kafka, dlq, [failure(topic, 9, second=30)], partition=1)
    assert "add --yes" in call(kafka, "purge", dlq, status=2).err
    assert kafka.admin.start_offsets(dlq) == {0: 0, 1: 0}

    done = call(kafka, "purge", dlq, "--before", FAILED % 5, "--yes", "--json")
    assert done.rows == [{"partition": 0, "deleted": 5, "first_offset_left": 5}]
    assert f"{dlq}[0] stays from offset 5 on: it is not that old" in done.err
    assert kafka.admin.start_offsets(dlq) == {0: 5, 1: 0}

    assert replay(kafka, dlq, "--partition", "0", "--offset", "5")["replayed"] == 1
    done = call(kafka, "purge", dlq, "--replayed", "--yes", "--json")
    assert done.rows == [{"partition": 0, "deleted": 1, "first_offset_left": 6}]
    assert call(kafka, "purge", dlq, "--replayed", "--yes").err.count("it was not replayed") == 2

    assert replay(kafka, dlq)["replayed"] == 15
    done = call(kafka, "purge", dlq, "--partition", "0", "--yes", "--json")
    assert done.rows == [{"partition": 0, "deleted": 14, "first_offset_left": 20}]
    assert kafka.admin.start_offsets(dlq) == {0: 20, 1: 0}
    assert replay(kafka, dlq)["replayed"] == 0
    assert "no dead letters" in call(kafka, "list", dlq, "--partition", "0").err


def test_what_is_no_dead_letter_topic_is_left_alone(kafka: KafkaCluster, topic: str, dlq: str) -> None:
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(topic, [b"order"] * 3, partition=0).wait(30)
    for words in (["list"], ["replay"], ["purge"]):
        done = call(kafka, *words, topic, *([] if words == ["list"] else ["--yes"]), status=1)
        assert topic in done.err
        assert "no dead letter" in done.err
    assert kafka.admin.start_offsets(topic)[0] == 0
    assert call(kafka, "purge", topic, "--foreign", "--yes", "--json").rows[0]["deleted"] == 3

    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(dlq, [b"plain"], partition=0).wait(30)
    write_letters(kafka, dlq, [failure(topic, 1)])
    done = call(kafka, "list", dlq, "--json")
    assert len(done.rows) == 1
    assert "1 of 2 records" in done.err
    assert replay(kafka, dlq)["replayed"] == 1


def test_says_why_it_cannot_be(kafka: KafkaCluster, topic: str, dlq: str) -> None:
    write_letters(kafka, dlq, [failure(f"{topic}.gone", 1)])
    for words, status, says in (
        (["list", f"{topic}.missing"], 1, f"{topic}.missing"),
        (["show", f"{topic}.missing", "0", "0"], 1, f"{topic}.missing"),
        (["replay", f"{topic}.missing", "--yes"], 1, f"{topic}.missing"),
        (["purge", f"{topic}.missing", "--yes"], 1, f"{topic}.missing"),
        (["replay", dlq, "--yes"], 1, f"grete topics create {topic}.gone"),
        (["replay", dlq, "--to", dlq, "--yes"], 2, "where they are"),
        (["replay", dlq, "--to", topic], 2, "add --yes"),
        (["replay", dlq, "--offset", "1", "--yes"], 2, "--partition"),
        (["list", dlq, "--partition", "5"], 1, "no partition 5"),
    ):
        done = call(kafka, *words, status=status)
        assert says in done.err, words
    assert kafka.admin.end_offsets(topic) == {0: 0, 1: 0}


def test_a_group_with_members_is_left_alone(kafka: KafkaCluster, topic: str, dlq: str, group: str) -> None:
    write_letters(kafka, dlq, [failure(topic, 1)])
    app = make(kafka, group)
    app.consumer(dlq)(lambda messages: None)
    with running(app):
        until_done(kafka, app, dlq)
        done = call(kafka, "replay", dlq, "--group", group, "--yes", status=1)
    assert "--group" in done.err
    assert kafka.admin.end_offsets(topic) == {0: 0, 1: 0}
