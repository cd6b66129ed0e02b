"""What other libraries read through the Arrow PyCapsule interface."""

import gc
import os
from datetime import UTC, datetime
from typing import Any

import polars
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import grete
from grete import _native
from tests.unit.record_batches import Record, batch

LONG = b"a value that is longer than twelve bytes"
RECORDS = [
    Record(0, b"short", b"k", 1_000),
    Record(1, None, LONG, 2_000),
    Record(2, LONG, None, -1),
    Record(3, b"", b"", 3_000),
    Record(4, b"x" * 12, b"y" * 13, 4_000),
]


def decode() -> grete.Messages:
    return _native._testing_decode(batch(RECORDS), "orders", 0)


def rows(records: list[Record]) -> list[dict[str, Any]]:
    return [
        {
            "offset": record.offset,
            "timestamp": None if record.timestamp == -1 else datetime.fromtimestamp(record.timestamp / 1000, UTC),
            "key": record.key,
            "value": record.value,
        }
        for record in records
    ]


def test_pyarrow_reads_a_valid_struct_array() -> None:
    array = pa.array(decode())
    array.validate(full=True)
    assert array.type == pa.struct(
        [
            pa.field("offset", pa.int64(), nullable=False),
            ("timestamp", pa.timestamp("ms", "UTC")),
            ("key", pa.binary_view()),
            ("value", pa.binary_view()),
        ]
    )
    assert array.to_pylist() == rows(RECORDS)


@pytest.mark.parametrize(("start", "stop"), [(0, 5), (1, 4), (2, 2), (4, 5), (3, 5), (0, 1), (5, 5)])
def test_slices_export_their_rows(start: int, stop: int) -> None:
    array = pa.array(decode()[start:stop])
    array.validate(full=True)
    assert array.to_pylist() == rows(RECORDS[start:stop])
    batch_ = pa.record_batch(decode()[start:stop])
    batch_.validate(full=True)
    assert batch_.to_pylist() == rows(RECORDS[start:stop])
    assert polars.DataFrame(decode()[start:stop]).rows(named=True) == rows(RECORDS[start:stop])


def test_nulls_are_counted_right_in_slices() -> None:
    values = pa.record_batch(decode()[1:3])["value"]
    assert values.null_count == 1
    assert pa.record_batch(decode()[3:])["key"].null_count == 0
    assert pa.record_batch(decode())["key"].null_count == 1


def test_polars_reads_without_a_detour() -> None:
    frame = polars.DataFrame(decode())
    assert frame.schema["value"] == polars.Binary
    assert frame["offset"].to_list() == [0, 1, 2, 3, 4]
    assert frame["value"].bin.size().to_list() == [5, None, 40, 0, 12]
    assert frame["timestamp"].null_count() == 1


def test_the_schema_is_known_without_data() -> None:
    assert pa.schema(grete.Messages.empty()).names == ["offset", "timestamp", "key", "value"]  # type: ignore[call-overload,unused-ignore]
    array = pa.array(grete.Messages.empty())
    array.validate(full=True)
    assert len(array) == 0


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary()])
def test_a_requested_binary_is_a_copy(kind: pa.DataType) -> None:
    wanted = pa.struct(
        [("offset", pa.int64()), ("timestamp", pa.timestamp("ms", "UTC")), ("key", kind), ("value", kind)]
    )
    for part, expected in [(decode(), RECORDS), (decode()[1:4], RECORDS[1:4]), (decode()[2:2], [])]:
        schema, array = part.__arrow_c_array__(wanted.__arrow_c_schema__())
        imported = pa.Array._import_from_c_capsule(schema, array)
        imported.validate(full=True)
        assert imported.type.field("value").type == kind
        assert imported.to_pylist() == rows(expected)


def test_other_requests_are_answered_with_what_there_is() -> None:
    for wanted in (pa.int64(), pa.struct([("value", pa.string()), ("other", pa.binary())]), pa.struct([])):
        schema, array = decode().__arrow_c_array__(wanted.__arrow_c_schema__())
        imported = pa.Array._import_from_c_capsule(schema, array)
        assert imported.type.field("value").type == pa.binary_view()
    with pytest.raises((ValueError, TypeError)):
        decode().__arrow_c_array__("schema")


def test_unimported_capsules_are_freed() -> None:
    for _ in range(1000):
        capsules = decode().__arrow_c_array__()
        del capsules
        _ = decode().__arrow_c_schema__()


def test_a_child_that_is_moved_out_lives_on() -> None:
    value = pa.array(decode()).field("value")
    gc.collect()
    value.validate(full=True)
    assert value.to_pylist() == [record.value for record in RECORDS]


def resident_bytes() -> int:
    with open("/proc/self/statm") as file:  # noqa: PTH123
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def test_exports_are_released() -> None:
    data = batch([Record(0, os.urandom(1 << 20))])
    for _ in range(20):
        pa.array(_native._testing_decode(data, "t", 0))
    before = resident_bytes()
    for _ in range(300):
        pa.array(_native._testing_decode(data, "t", 0))
        polars.DataFrame(_native._testing_decode(data, "t", 0))
    assert resident_bytes() - before < 64 << 20  # of 600 MiB that went through


texts = st.none() | st.binary(max_size=30)


@given(st.lists(st.tuples(texts, texts, st.integers(-1, 2**40)), min_size=1, max_size=200), st.data())
def test_any_slice_of_any_batch_is_valid(
    columns: list[tuple[bytes | None, bytes | None, int]], data: st.DataObject
) -> None:
    records = [Record(index, value, key, timestamp) for index, (key, value, timestamp) in enumerate(columns)]
    start = data.draw(st.integers(0, len(records)))
    stop = data.draw(st.integers(start, len(records)))
    messages = _native._testing_decode(batch(records), "t", 0)[start:stop]
    array = pa.array(messages)
    array.validate(full=True)
    assert array.field("value").to_pylist() == [record.value for record in records[start:stop]]
    assert array.field("key").to_pylist() == [record.key for record in records[start:stop]]
    assert array.field("offset").to_pylist() == list(range(start, stop))
    nulls = [record.timestamp == -1 for record in records[start:stop]]
    assert array.field("timestamp").is_null().to_pylist() == nulls
