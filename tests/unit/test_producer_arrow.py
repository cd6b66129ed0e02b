"""Records from other libraries' columns."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grete
from grete import _native
from grete.client import Deliveries, Producer
from tests.unit.fake_broker import FakeBroker, Row
from tests.unit.record_batches import Record, batch

LONG = b"a value that is longer than twelve bytes"
VALUES = [b"short", None, LONG, b"", b"x" * 12, b"y" * 13]


@pytest.fixture(scope="module")
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "many": 3}) as fake:
        yield fake


@pytest.fixture(scope="module")
def producer(broker: FakeBroker) -> Iterator[Producer]:
    with Producer(broker.settings) as made:
        yield made


def sent(broker: FakeBroker, producer: Producer, records: Any, topic: str = "orders", **more: Any) -> list[Row]:
    """What came of these at the broker, by partition and in order."""
    broker.rows.clear()
    deliveries: Deliveries = producer.produce_many(topic, records, **more).wait(30.0)
    rows = broker.rows.copy()
    assert len(deliveries) == len(rows)
    return rows


@pytest.mark.parametrize(
    "kind",
    [pa.binary(), pa.large_binary(), pa.binary_view(), pa.string(), pa.large_string(), pa.string_view(), pa.null()],
)
@pytest.mark.parametrize("part", [(0, 6), (1, 4), (3, 3), (5, 0)])
def test_columns_of_every_layout(producer: Producer, broker: FakeBroker, kind: Any, part: tuple[int, int]) -> None:
    values = [None] * 6 if kind == pa.null() else VALUES
    text = [value if value is None or pa.types.is_binary(kind) else value.decode() for value in values]
    array = pa.array(values if "binary" in str(kind) else text, kind)
    sliced = array.slice(*part)
    expected = values[part[0] : part[0] + part[1]]
    assert [row.value for row in sent(broker, producer, sliced)] == expected
    table = pa.table({"value": array, "key": array}).slice(*part)
    assert [(row.key, row.value) for row in sent(broker, producer, table)] == [(value, value) for value in expected]


def test_bytes_of_one_length(producer: Producer, broker: FakeBroker) -> None:
    array = pa.array([b"abc", None, b"def"], pa.binary(3)).slice(1)
    assert [row.value for row in sent(broker, producer, array)] == [None, b"def"]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 5), st.sampled_from(["z", "Z", "v"]))
def test_any_values_arrive_as_they_are(
    producer: Producer, broker: FakeBroker, values: list[bytes | None], start: int, layout: str
) -> None:
    kind = {"z": pa.binary(), "Z": pa.large_binary(), "v": pa.binary_view()}[layout]
    array = pa.chunked_array([pa.array(values, kind), pa.array(values[:3], kind)]).slice(start)
    assert [row.value for row in sent(broker, producer, array)] == (values + values[:3])[start:]


def test_a_table_with_everything(producer: Producer, broker: FakeBroker) -> None:
    headers = pa.array([[("h", b"1"), ("h", None)], None, []], pa.map_(pa.string(), pa.binary()))
    times = pa.array([5, None, 7], pa.timestamp("s"))
    table = pa.table(
        {
            "value": [b"a", b"b", None],
            "key": ["k", None, "l"],
            "timestamp": times,
            "partition": pa.array([2, 1, 0], pa.int16()),
            "headers": headers,
        }
    )
    rows = sorted(sent(broker, producer, table, "many", timestamp=None), key=lambda row: -row.partition)
    assert [(row.partition, row.key, row.value, row.headers) for row in rows] == [
        (2, b"k", b"a", (("h", b"1"), ("h", None))),
        (1, None, b"b", ()),
        (0, b"l", None, ()),
    ]
    assert [row.timestamp for row in rows][::2] == [5000, 7000]
    assert abs(rows[1].timestamp - datetime.now(UTC).timestamp() * 1000) < 60_000


@pytest.mark.parametrize(("unit", "scale"), [("s", 0.001), ("ms", 1), ("us", 1000), ("ns", 1_000_000)])
def test_times_of_every_unit(producer: Producer, broker: FakeBroker, unit: str, scale: float) -> None:
    table = pa.table({"value": [b"v"], "timestamp": pa.array([int(86_400_000 * scale)], pa.timestamp(unit))})
    assert sent(broker, producer, table)[0].timestamp == 86_400_000


def test_polars_frames_and_series(producer: Producer, broker: FakeBroker) -> None:
    frame = polars.DataFrame({"key": ["a", "b", None], "value": [LONG, None, b""]})
    assert [(row.key, row.value) for row in sent(broker, producer, frame)] == [(b"a", LONG), (b"b", None), (None, b"")]
    assert [row.value for row in sent(broker, producer, frame["value"].slice(1))] == [None, b""]
    headers = frame.select("value", headers=polars.lit([{"name": "h", "value": b"1"}]))
    assert [row.headers for row in sent(broker, producer, headers)] == [(("h", b"1"),)] * 3


def test_messages_go_on_as_they_came(producer: Producer, broker: FakeBroker) -> None:
    records = [Record(n, b"k%d" % n, LONG if n % 2 else None, 1000 + n) for n in range(10)]
    messages = _native._testing_decode(batch(records), "elsewhere", 3)
    rows = sent(broker, producer, messages[2:])
    assert [(row.key, row.value, row.timestamp) for row in rows] == [(r.key, r.value, r.timestamp) for r in records[2:]]
    assert {row.timestamp for row in sent(broker, producer, messages, timestamp=77)} == {77}
    # Through a frame, too: where a record was says nothing about where it goes.
    assert [row.value for row in sent(broker, producer, polars.DataFrame(messages))] == [r.value for r in records]


@pytest.mark.parametrize(
    ("records", "says"),
    [
        (pa.table({"valeu": [b"a"]}), 'no column "value"|column "valeu"'),
        (pa.table({"value": [b"a"], "keys": [b"k"]}), 'a column "keys": records have value, key'),
        (pa.table({"value": [1]}), 'column "value" has the Arrow format "l"; give binary or text'),
        (pa.array([1.5]), "give binary or text"),
        (pa.table({"value": [b"a"], "partition": [-1]}), "record 0.*partition is a number from 0"),
        (pa.table({"value": [b"a", b"b"], "timestamp": [1, -1]}), "record 1.*timestamp"),
        (pa.table({"value": [b"a"], "timestamp": ["now"]}), "give timestamps, or int64"),
        (pa.table({"value": [b"a"], "headers": [b"h"]}), "a list of structs"),
        (pa.array([{"value": b"a"}, None]), "row 1 is null as a whole"),
        (pa.array(["a", "a"]).dictionary_encode(), "dictionary-encoded"),
    ],
)
def test_what_is_no_record_is_refused_as_a_whole(
    producer: Producer, broker: FakeBroker, records: Any, says: str
) -> None:
    broker.rows.clear()
    with pytest.raises(grete.RecordTypeError, match=says):
        producer.produce_many("many", records)
    assert producer.statistics()["pending_records"] == 0
    assert broker.rows == []


def test_a_partition_that_is_not_there_keeps_the_others_back(producer: Producer, broker: FakeBroker) -> None:
    table = pa.table({"value": [b"a", b"b", b"c"], "partition": [0, 1 << 20, 0]})
    broker.rows.clear()
    with pytest.raises(grete.GreteError, match=f"many.*partition {1 << 20}"):
        producer.produce_many("many", table)
    assert producer.statistics()["pending_records"] == 0
    assert broker.rows == []


def test_an_exporter_that_does_not_keep_to_the_interface() -> None:
    class Liar:
        def __init__(self, answer: object) -> None:
            self.answer = answer

        def __arrow_c_array__(self, requested_schema: object | None = None) -> Any:
            return self.answer

    class Stream:
        def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
            return 5

    producer = Producer({"bootstrap.servers": "127.0.0.1:1"}, max_block=0)
    used = pa.array([b"a"]).__arrow_c_array__()
    pa.Array._import_from_c_capsule(*used)
    try:
        for liar in (Liar(5), Liar((1, 2)), Stream()):
            with pytest.raises(TypeError, match="must return"):
                producer.produce_many("orders", liar)
        with pytest.raises(grete.GreteError):
            producer.produce_many("orders", Liar(used))
    finally:
        producer.close(0)
