"""`read_topic`: topics as Arrow."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import polars
import pyarrow
import pytest

import grete
from grete.client import Consumer, Producer, read_topic
from tests.kafka import KafkaCluster, fill
from tests.kafka.foreign_producer import produce

pytestmark = pytest.mark.kafka


@pytest.fixture
def settings(kafka: KafkaCluster) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers}


@pytest.fixture
def filled(kafka: KafkaCluster, topic: str) -> str:
    """A topic of three partitions with a hundred records each."""
    kafka.create_topic(topic, partitions=3)
    fill(kafka.bootstrap_servers, topic, 300, partitions=3)
    return topic


def places(table: pyarrow.Table) -> list[tuple[int, int]]:
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def test_a_whole_topic_with_keys_headers_and_times(kafka: KafkaCluster, topic: str, settings: dict[str, Any]) -> None:
    kafka.create_topic(topic, partitions=2)
    with Producer(settings) as producer:
        at = datetime(2026, 1, 31, 12, tzinfo=UTC)
        headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None)]
        producer.produce(topic, b"one", key=b"k", headers=headers, partition=1, timestamp=at)
        producer.produce(topic, None, partition=0, timestamp=at)
    rows = sorted(pyarrow.table(read_topic(topic, settings)).to_pylist(), key=lambda row: row["partition"])
    assert rows == [
        {"partition": 0, "offset": 0, "timestamp": at, "key": None, "value": None, "headers": []},
        {
            "partition": 1,
            "offset": 0,
            "timestamp": at,
            "key": b"k",
            "value": b"one",
            "headers": [{"name": "a", "value": b"1"}, {"name": "a", "value": None}],
        },
    ]


def test_other_libraries_take_it(filled: str, settings: dict[str, Any]) -> None:
    frame = polars.DataFrame(read_topic(filled, settings))
    assert frame.columns == ["partition", "offset", "timestamp", "key", "value", "headers"]
    assert frame.group_by("partition").len().sort("partition").rows() == [(0, 100), (1, 100), (2, 100)]
    table = pyarrow.table(read_topic(filled, settings, headers=False))
    assert table.column_names == ["partition", "offset", "timestamp", "key", "value"]
    assert places(table) == [(partition, offset) for partition in range(3) for offset in range(100)]


def test_it_is_read_anew_each_time_in_small_batches(filled: str, settings: dict[str, Any]) -> None:
    reader = read_topic(filled, settings, max_messages=7)
    for _ in range(2):
        batches = list(reader)
        assert max(batch.num_rows for batch in batches) <= 7
        assert {batch.schema for batch in batches} == {reader.schema}
        assert sum(batch.num_rows for batch in batches) == 300
        for partition in range(3):
            mine = [batch for batch in batches if batch["partition"][0].as_py() == partition]
            assert [offset for batch in mine for offset in batch["offset"].to_pylist()] == list(range(100))


@pytest.mark.parametrize(
    ("start", "end", "offsets"),
    [
        (40, 60, range(40, 60)),
        (-10, "latest", range(90, 100)),
        (-10, -5, range(90, 95)),
        (5000, "latest", range(0)),
        (-5000, 3, range(3)),
        ("latest", "latest", range(0)),
        (60, 40, range(0)),
        (datetime(2000, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC), range(100)),
        (datetime(2100, 1, 1, tzinfo=UTC), "latest", range(0)),
    ],
    ids=str,
)
def test_parts_of_a_topic(start: Any, end: Any, offsets: range, filled: str, settings: dict[str, Any]) -> None:
    table = pyarrow.table(read_topic(filled, settings, start=start, end=end, partitions=[2, 0]))
    assert places(table) == [(partition, offset) for partition in (0, 2) for offset in offsets]


def test_records_that_arrive_while_it_is_read_are_not_read(filled: str, settings: dict[str, Any]) -> None:
    batches = iter(read_topic(filled, settings, max_messages=10))
    count = next(batches).num_rows
    with Producer(settings) as producer:
        for partition in range(3):
            producer.produce(filled, b"late", partition=partition)
    assert count + sum(batch.num_rows for batch in batches) == 300


def test_ends_after_control_records(kafka: KafkaCluster, topic: str, settings: dict[str, Any]) -> None:
    kafka.create_topic(topic)
    produce(kafka, topic, 20, transaction=10, abort=1, properties={"transactional.id": topic})
    table = pyarrow.table(read_topic(topic, {**settings, "isolation.level": "read_committed"}))
    assert table.num_rows == 0


def test_settings_come_from_the_configuration(
    kafka: KafkaCluster, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    assert pyarrow.table(read_topic(filled)).num_rows == 300


def test_what_is_not_there_is_named(filled: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(grete.UnknownTopicError, match=f"{filled}-none"):
        read_topic(f"{filled}-none", settings)
    with pytest.raises(grete.ConfigError, match=rf"{filled} has no partition 3: there are 3, from 0 to 2"):
        read_topic(filled, settings, partitions=[0, 3])
    with pytest.raises(grete.ConfigError, match=r"fetch\.min\.bites"):
        read_topic(filled, {**settings, "fetch.min.bites": 1})
    with pytest.raises(ValueError, match="max_messages"):
        read_topic(filled, settings, max_messages=0)
    places = r'is "earliest", "latest", an offset, a negative number \(from the end\), or a datetime, not '
    for name in ("start", "end"):
        for wrong, error in (("first", ValueError), (1.5, TypeError), (None, TypeError), (True, TypeError)):
            with pytest.raises(error, match=f"^{name} {places}"):
                read_topic(filled, settings, **{name: wrong})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="start is from"):
        read_topic(filled, settings, start=1 << 63)
    monkeypatch.setitem(__import__("sys").modules, "pyarrow", None)
    with pytest.raises(grete.ConfigError, match="pip install"):
        read_topic(filled, settings)


def test_a_broker_that_sends_nothing_ends_it_in_time(
    filled: str, settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Consumer, "poll", lambda *_: grete.Messages.empty())
    with pytest.raises(grete.TimeoutError, match=rf"{filled}\[0\] has sent no records for 0.5 s: .* of 100"):
        list(read_topic(filled, settings, timeout=0.5))


def test_the_watermarks_are_those_of_the_last_fetch_and_offsets_asks(filled: str, settings: dict[str, Any]) -> None:
    with Consumer(settings) as consumer:
        assert consumer.offsets([(filled, 0, "latest")]) == {(filled, 0): 100}
        assert consumer.watermarks(filled, 0) is None, "an answer to another request counts for nothing"
        consumer.assign([(filled, 0, "earliest")])
        assert consumer.poll(60.0)
        assert consumer.watermarks(filled, 0) == (0, 100)
