"""Records that were written twice are processed once: within a run, after a restart, and beside retries and replays."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, make, running, until_done
from tests.integration.exactly_once.reading import committed
from tests.kafka import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


PAGE = Path(__file__).parents[2] / "docs" / "deduplication.md"


def value_of(message: grete.Message) -> bytes | None:
    return message.value


def write(kafka: KafkaCluster, topic: str, ids: list[str | None], first: int = 0) -> None:
    """Records with these ids as headers; the values are numbers."""
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for number, name in enumerate(ids, first):
            headers = [] if name is None else [("id", name.encode())]
            producer.produce_sync(topic, b"%d" % number, headers=headers, partition=0)


def reader(kafka: KafkaCluster, group: str, topic: str, **settings: Any) -> tuple[grete.App, list[bytes]]:
    """An App, and the values that it processes."""
    app, seen = make(kafka, group), []

    @app.consumer(topic, **{"dedup": "header:id", **settings})
    def take(message: grete.Message) -> None:
        seen.append(message.value or b"")

    return app, seen


def test_a_record_with_the_id_of_an_earlier_one_is_skipped(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, ["a", "b", "a", None, None, "c", "b"])
    app, seen = reader(kafka, group, topic)
    with running(app):
        until_done(kafka, app, topic)
        assert app.statistics()["counts"]["duplicates"] == 2
        assert 'grete_duplicate_records_total{handler="take"} 2' in app.metrics()
    assert seen == [b"0", b"1", b"3", b"4", b"5"]


@pytest.mark.parametrize("concurrency", ["partition", "key"])
def test_ids_are_known_after_a_restart(kafka: KafkaCluster, topic: str, group: str, concurrency: str) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, ["a", "b", "c"])
    app, seen = reader(kafka, group, topic, concurrency=concurrency)
    with running(app):
        until_done(kafka, app, topic)
    assert sorted(seen) == [b"0", b"1", b"2"]
    write(kafka, topic, ["c", "d", "a"], first=3)
    again, seen = reader(kafka, group, topic, concurrency=concurrency)
    with running(again):
        until_done(kafka, again, topic)
        assert again.statistics()["counts"]["duplicates"] == 2
    assert seen == [b"4"]


def test_keys_and_fields_identify_records(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        for key, number, name in ((b"k", 0, "x"), (b"k", 1, "y"), (b"l", 2, "x")):
            producer.produce_sync(topic, b'{"n": %d, "id": "%b"}' % (number, name.encode()), key=key, partition=0)
    for kind, expected in (("key", [0, 2]), ("field:id", [0, 1])):
        app, seen = reader(kafka, f"{group}-{kind}", topic, dedup=kind)
        with running(app):
            until_done(kafka, app, topic)
        assert [int(value[6:7]) for value in seen] == expected


def test_a_record_that_is_retried_is_no_duplicate_and_a_dead_letter_stands_for_all(
    kafka: KafkaCluster, topic: str, group: str
) -> None:
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}.dlq")
    write(kafka, topic, ["a", "bad", "a", "bad", "b"])
    app, runs = make(kafka, group), []

    @app.consumer(topic, dedup="header:id", retry=FAST, dead_letter=f"{topic}.dlq")
    def take(message: grete.Message, attempt: grete.Attempt) -> None:
        runs.append(message.value)
        if message.value == b"1" or (message.value == b"4" and attempt == 1):
            raise ValueError("no")

    with running(app):
        until_done(kafka, app, topic)
    assert runs == [b"0", b"1", b"1", b"1", b"4", b"4"]
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert letter.value == b"1"
    # A replay is sent with the same id, and is wanted.
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as producer:
        producer.produce_sync(topic, b"5", headers=[("id", b"bad"), ("grete.replayed", b"1")], partition=0)
    again, seen = reader(kafka, group, topic)
    with running(again):
        until_done(kafka, again, topic)
    assert seen == [b"5"]


def test_exactly_once_with_duplicates_across_a_restart(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    kafka.create_topic(f"{topic}.out")
    for first in (0, 4):
        write(kafka, topic, ["a", "b", "a", f"c{first}"], first)
        app = make(kafka, group, exactly_once=True, transaction_interval="20ms")
        app.consumer(topic, dedup="header:id", publish=f"{topic}.out")(value_of)
        with running(app):
            until_done(kafka, app, topic)
    assert committed(kafka, f"{topic}.out") == [b"0", b"1", b"3", b"7"]


def test_the_memory_is_bounded(kafka: KafkaCluster, topic: str, group: str, caplog: pytest.LogCaptureFixture) -> None:
    kafka.create_topic(topic)
    write(kafka, topic, [str(number) for number in range(30)])
    app, seen = reader(kafka, group, topic, dedup_memory=1120)
    with running(app):
        until_done(kafka, app, topic)
        write(kafka, topic, ["29", "0"], first=30)
        until_done(kafka, app, topic)
        assert 'grete_dedup_forgotten_ids_total{handler="take"} 2' in app.metrics()
    assert seen == [b"%d" % number for number in range(30)] + [b"31"]
    assert "dedup_memory is full" in caplog.text


def test_the_page(kafka: KafkaCluster, topic: str, capsys: pytest.CaptureFixture[str]) -> None:
    (block,) = re.findall(r"^```python(?: [^\n]*)?\n(.*?)^```", PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    kafka.create_topic(f"{topic}-orders")
    write(kafka, f"{topic}-orders", ["a", "a", "b"])
    names: dict[str, Any] = {}
    exec(re.sub(r'"(payments|orders)"', rf'"{topic}-\1"', block), names)
    app: grete.App = names["app"]
    app.override({}, {"bootstrap.servers": kafka.bootstrap_servers, "auto.commit.interval.ms": "200"})
    with app.running():
        until_done(kafka, app, f"{topic}-orders")
    assert capsys.readouterr().out == "paid b'0'\npaid b'2'\n"


def test_wrong_settings_are_refused() -> None:
    app = grete.App("refused")
    for settings in ({"dedup": "id"}, {"dedup": "header:"}, {"dedup": "key:x"}, {"dedup_window": "1h"}):
        with pytest.raises(grete.ConfigError):
            app.consumer("orders", **settings)(lambda message: None)  # type: ignore[arg-type]
