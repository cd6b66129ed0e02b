"""Messages and Message over batches built by hand."""

import gc
import itertools
import typing

import pytest
from hypothesis import given
from hypothesis import strategies as st

import grete
from grete import _native
from tests.unit.record_batches import Record, batch, crc32c

RECORDS = [
    Record(10, b"first", b"k", 1000),
    Record(11, None, None, 1001, [("trace", b"1"), ("trace", None), ("ü", b"")]),
    Record(13, b"a value that is longer than twelve bytes", b"a key longer than twelve", 999),
    Record(14, b"", b"", 1002),
]


def decode(records: list[Record] = RECORDS, high_watermark: int = 20) -> grete.Messages:
    return _native._testing_decode(batch(records), "orders", 3, high_watermark)


def test_the_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283


def test_a_batch_says_where_it_is_from() -> None:
    messages = decode()
    assert (messages.topic, messages.partition, messages.high_watermark) == ("orders", 3, 20)
    assert (messages.first_offset, messages.last_offset, messages.next_offset) == (10, 14, 15)
    assert len(messages) == 4
    assert repr(messages) == "<Messages orders[3] offsets 10..14, 4 messages, high watermark 20>"


def test_rows_are_the_records() -> None:
    for message, record in zip(decode(), RECORDS, strict=True):
        assert message.topic == "orders"
        assert message.partition == 3
        assert message.offset == record.offset
        assert message.timestamp == record.timestamp
        assert message.key == record.key
        assert message.value == record.value
        assert message.headers == tuple(record.headers)
    assert repr(decode()[0]) == "<Message orders[3] offset 10, key 1 B, value 5 B>"
    assert repr(decode()[1]) == "<Message orders[3] offset 11, key none, value none>"


def test_lists_and_views_are_the_columns() -> None:
    messages = decode()
    assert messages.values() == [record.value for record in RECORDS]
    assert messages.keys() == [record.key for record in RECORDS]
    offsets, timestamps = messages.offsets, messages.timestamps
    del messages
    gc.collect()
    for view in (offsets, timestamps):
        assert (view.format, view.itemsize, view.ndim, view.readonly, view.contiguous) == ("q", 8, 1, True, True)
    assert offsets.tolist() == [10, 11, 13, 14]
    assert timestamps.tolist() == [1000, 1001, 999, 1002]
    with pytest.raises(TypeError):
        offsets[0] = 1


def test_views_of_a_slice_are_the_slices() -> None:
    part = decode()[1:3]
    assert part.offsets.tolist() == [11, 13]
    assert memoryview(part.offsets)[1] == 13
    assert decode()[4:].offsets.tolist() == []


def test_an_index_counts_from_either_end() -> None:
    messages = decode()
    assert messages[0].offset == messages[-4].offset == 10
    assert messages[-1].offset == messages[3].offset == 14
    for index in (4, -5, 2**40):
        with pytest.raises(IndexError):
            messages[index]
    with pytest.raises(TypeError, match="int or slice"):
        messages["0"]  # type: ignore[call-overload]


@given(st.integers(-6, 6) | st.none(), st.integers(-6, 6) | st.none(), st.integers(-6, 6), st.integers(-6, 6))
def test_slices_are_those_of_a_list(start: int | None, stop: int | None, again: int, until: int) -> None:
    messages, offsets = decode(), [10, 11, 13, 14]
    part = messages[start:stop]
    assert [message.offset for message in part] == offsets[start:stop]
    assert [message.offset for message in part[again:until]] == offsets[start:stop][again:until]


def test_a_slice_has_its_own_next_offset() -> None:
    messages = decode()
    assert messages[:2].next_offset == 12
    assert messages[2:].next_offset == messages.next_offset == 15
    assert messages[:2][:1].next_offset == 11
    assert messages[:1].topic == "orders"


def test_other_steps_are_refused_with_advice() -> None:
    with pytest.raises(ValueError, match=r"list\(messages\)\[::2\]"):
        decode()[::2]


def test_iterators_are_independent_and_end() -> None:
    messages = decode()
    pairs = [(a.offset, b.offset) for a, b in itertools.product(messages, messages)]
    assert len(pairs) == 16
    iterator = iter(messages)
    assert [message.offset for message in iterator] == [10, 11, 13, 14]
    assert next(iterator, None) is None
    assert list(messages) == list(messages)


def test_a_message_outlives_its_batch() -> None:
    message = decode()[2]
    gc.collect()
    assert message.value == RECORDS[2].value


def test_a_message_is_its_topic_partition_and_offset() -> None:
    one, other = decode(), decode()
    assert one[0] == other[0]
    assert hash(one[0]) == hash(other[0])
    assert one[0] != one[1]
    assert one[0] != _native._testing_decode(batch(RECORDS), "orders", 4)[0]
    assert one[0] != "orders"
    assert len({*one, *other}) == 4


def test_no_messages_have_no_offset() -> None:
    messages = grete.Messages.empty()
    assert not messages
    assert [*messages, *messages.values(), *messages.offsets] == []
    with pytest.raises(IndexError):
        _ = messages.first_offset
    with pytest.raises(IndexError):
        _ = messages.last_offset
    with pytest.raises(IndexError):
        messages[0]
    assert repr(messages) == "<Messages, none>"


def test_empty_tells_whether_there_are_messages_as_elsewhere() -> None:
    assert grete.Messages.empty().empty is True
    assert decode().empty is False
    assert decode()[:0].empty is True


def test_messages_of_a_payload_are_an_annotation() -> None:
    one, many = grete.Message[int], grete.Messages[int]
    assert (typing.get_origin(one), typing.get_args(one)) == (grete.Message, (int,))
    assert (typing.get_origin(many), typing.get_args(many)) == (grete.Messages, (int,))


def test_classes_cannot_be_made_by_hand() -> None:
    for kind in (grete.Messages, grete.Message, _native.Job):
        with pytest.raises(TypeError):
            kind()


def test_a_corrupt_batch_is_refused() -> None:
    with pytest.raises(ValueError, match=r"(?i)crc|checksum"):
        _native._testing_decode(batch(RECORDS, flip_crc=True), "orders", 0)


def test_several_batches_are_one() -> None:
    data = batch(RECORDS) + batch([Record(20, b"x" * 100)])
    messages = _native._testing_decode(data, "orders", 0)
    assert messages.offsets.tolist() == [10, 11, 13, 14, 20]
    assert messages[-1].value == b"x" * 100


texts = st.none() | st.binary(max_size=40)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=3)
records = st.lists(st.tuples(st.integers(1, 3), texts, texts, st.integers(-1, 2**40), headers), min_size=1, max_size=80)


@given(records)
def test_whatever_was_written_is_read(
    rows: list[tuple[int, bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]],
) -> None:
    offset, written = 0, []
    for gap, key, value, timestamp, header in rows:
        offset += gap
        written.append(Record(offset, value, key, timestamp, header))
    messages = _native._testing_decode(batch(written), "t", 0)
    read = [(m.offset, m.value, m.key, m.timestamp, m.headers) for m in messages]
    assert read == [(r.offset, r.value, r.key, r.timestamp, tuple(r.headers)) for r in written]


def numbered(count: int) -> grete.Messages:
    return decode([Record(number, b"%d" % number, None, number) for number in range(count)])


def test_a_loop_gets_two_messages_that_take_turns() -> None:
    assert len({id(message) for message in numbered(100)}) == 2


@pytest.mark.parametrize("every", [1, 2, 3, 7])
def test_a_message_that_is_kept_stays_what_it_was(every: int) -> None:
    kept = [message for message in numbered(100) if message.offset % every == 0]
    assert [message.offset for message in kept] == list(range(0, 100, every))
    assert [message.value for message in kept] == [b"%d" % number for number in range(0, 100, every)]


def test_neighbours_and_nested_loops_do_not_share_messages() -> None:
    messages = numbered(20)
    assert [(a.offset, b.offset) for a, b in itertools.pairwise(messages)] == [(n, n + 1) for n in range(19)]
    pairs = [(a.offset, b.offset) for a in messages for b in messages]
    assert pairs == list(itertools.product(range(20), repeat=2))
    iterator = iter(messages)
    held = [next(iterator), next(iterator), next(iterator)]
    del held[0]
    assert [message.offset for message in iterator] == list(range(3, 20))
    assert [message.offset for message in held] == [1, 2]
