"""What the clients' methods are given in error: refused before a broker is asked, with what to give instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

import grete
from grete.broker import Broker
from grete.client import Admin, Consumer, NewTopic, Producer, ShareConsumer
from tests.unit.fake_broker import FakeBroker

NOWHERE = {"bootstrap.servers": "127.0.0.1:1", "group.id": "g"}
HUGE = 99999999999999999999
EARLY = datetime(1, 1, 1)  # noqa: DTZ001 as people write it
END = datetime(9999, 12, 31, 23, 59)  # noqa: DTZ001


@pytest.fixture(scope="module")
def admin() -> Iterator[Admin]:
    with Admin(NOWHERE) as admin:
        yield admin


@pytest.fixture(scope="module")
def consumer() -> Iterator[Consumer]:
    with Consumer(NOWHERE) as consumer:
        yield consumer


BY_PARTITION = r'delete_records takes a dict by \(topic, partition\), like \{\("orders", 0\): 4000\}'


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda a: a.delete_records([("t", 0, 4000)]), TypeError, f"{BY_PARTITION}, not list"),
        (lambda a: a.delete_records({"t": 4}), TypeError, f"{BY_PARTITION}; 't' is none of these"),
        (
            lambda a: a.delete_records({("t", 0): "earliest"}),
            TypeError,
            r'an offset \(or "latest"\) is an int, not str',
        ),
        (lambda a: a.delete_records({("t", 0): -1}), ValueError, "is from 0 to 9223372036854775807, not -1"),
        (lambda a: a.delete_records({("t", 1 << 31): 0}), ValueError, "a partition is from 0 to 2147483647"),
        (lambda a: a.delete_records({("t", "0"): 0}), TypeError, "a partition is an int, not str"),
        (lambda a: a.delete_records({(1, 0): 0}), TypeError, "delete_records: a topic is a str, not int"),
        (
            lambda a: a.reset_offsets("g", [("t", 0, 1)]),
            TypeError,
            r'reset_offsets takes a dict .*: "earliest"\}, not list',
        ),
        (lambda a: a.reset_offsets("g", {("t", 0): HUGE}), ValueError, f"offset {HUGE} is out of range: .* 0 to 92233"),
        (lambda a: a.reset_offsets("g", {("t", 0): EARLY}), ValueError, "time 0001-01-01 00:00:00 is out of range"),
        (lambda a: a.offsets({("t", 0): "latest"}), TypeError, r"offsets takes \(topic, partition, place\), like"),
        (lambda a: a.offsets([("t", 0)]), TypeError, r"\('t', 0\) is none of these"),
        (lambda a: a.offsets("t"), TypeError, r'like \[\("orders", 0, "latest"\)\], not str'),
        (lambda a: a.offsets([("t", 0, EARLY)]), ValueError, r"is out of range: times are from 1970-01-01 UTC on"),
        (lambda a: a.offsets([("t", 0, 5)]), TypeError, "not an offset or None"),
        (lambda a: a.offsets([("t", 0, 1.5)]), TypeError, "a datetime, .*, not float"),
        (lambda a: a.delete_offsets("g", {"t": 0}), TypeError, r"delete_offsets takes \(topic, partition\), like"),
        (lambda a: a.delete_offsets("g", [("t", HUGE)]), ValueError, "a partition is from 0"),
        (lambda a: a.create_topic("t", HUGE), ValueError, "partitions is from -1 to 2147483647"),
        (lambda a: a.create_topic("t", -2), ValueError, "partitions is from -1 to 2147483647, not -2"),
        (lambda a: a.create_topic("t", "8"), TypeError, "partitions is an int, not str"),
        (lambda a: a.create_topic("t", 1, 99999), ValueError, "replication_factor is from -1 to 32767"),
        (
            lambda a: a.create_topic("t", config=[("a", 1)]),
            TypeError,
            'create_topic takes settings as a dict, like {"ret',
        ),
        (lambda a: a.create_topic(3), TypeError, "create_topics: a topic is a str, not 3"),
        (lambda a: a.create_topics(["t"]), TypeError, r"create_topics takes a list like \[NewTopic\("),
        (lambda a: a.create_topics(NewTopic("t")), TypeError, r"create_topics takes a list like \[NewTopic\("),
        (lambda a: a.create_topics([NewTopic("t", assignment=[[HUGE]])]), ValueError, "a broker of assignment is from"),
        (lambda a: a.create_partitions("t", HUGE), ValueError, "total is from 1 to 2147483647"),
        (lambda a: a.create_partitions("t", None), TypeError, "total is an int, not None"),
        (lambda a: a.alter_config("t", [("a", 1)]), TypeError, "alter_config takes settings as a dict"),
        (lambda a: a.alter_config("t", {}, [3]), TypeError, "delete: a setting is a str, not 3"),
        (lambda a: a.delete_topics(3), TypeError, "delete_topics takes a list of topics, not 3"),
        (lambda a: a.delete_topics([None]), TypeError, "delete_topics: a topic is a str, not None"),
        (lambda a: a.describe_group(None), TypeError, "describe_groups: a group is a str, not None"),
        (lambda a: a.delete_groups("g"), grete.ConfigError, r'delete_groups takes a list of groups: .*\["g"\]'),
    ],
)
def test_admin(admin: Admin, call: Callable[[Any], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(admin)


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (
            lambda c: c.assign([("t", 0, HUGE)]),
            ValueError,
            f"offset {HUGE} is out of range: offsets are from 0 to 9223372",
        ),
        (lambda c: c.assign([("t", 0, -HUGE)]), ValueError, f"offset -{HUGE} is out of range"),
        (lambda c: c.assign([("t", 0, -1)]), ValueError, "offset -1 is negative: offsets start at 0"),
        (lambda c: c.assign([("t", 0, EARLY)]), ValueError, 'give "earliest"'),
        (lambda c: c.assign([("t", 0, datetime(1969, 12, 31, 23, tzinfo=UTC))]), ValueError, "from 1970-01-01 UTC on"),
        (lambda c: c.assign([("t", 0, True)]), TypeError, "or None for the committed one, not bool"),
        (lambda c: c.assign([("t", 0, b"latest")]), TypeError, "not bytes"),
        (lambda c: c.assign([("t", 0, "now")]), ValueError, 'not "now"'),
        (lambda c: c.assign([("t", 0)]), TypeError, r"assign takes \(topic, partition, offset\), like"),
        (lambda c: c.assign(["t"]), TypeError, "'t' is none of these"),
        (lambda c: c.assign([("t", 1 << 31, 0)]), ValueError, "a partition is from 0 to 2147483647, not 2147483648"),
        (lambda c: c.seek("t", HUGE, 0), ValueError, "a partition is from 0"),
        (lambda c: c.offsets([("t", -1, "latest")]), ValueError, "a partition is from 0"),
        (lambda c: c.committed([("t", HUGE)]), ValueError, "a partition is from 0"),
        (lambda c: c.committed({"t": 0}), TypeError, r"committed takes \(topic, partition\)"),
        (lambda c: c.pause(["t"]), TypeError, r"pause takes \(topic, partition\)"),
        (lambda c: c.resume([("t", None)]), TypeError, "a partition is an int, not None"),
        (lambda c: c.position("t", HUGE), ValueError, "a partition is from 0"),
        (lambda c: c.watermarks("t", HUGE), ValueError, "a partition is from 0"),
        (lambda c: c.commit({("t", 0): HUGE}), ValueError, "an offset is from 0 to 9223372036854775807"),
        (lambda c: c.commit({("t", 0): -1}), ValueError, "an offset is from 0"),
        (lambda c: c.poll("1"), TypeError, "a timeout is a number of seconds or None, not str"),
        (lambda c: c.poll(-1), ValueError, "a timeout is a number of seconds from 0 up, not -1"),
        (lambda c: c.poll(float("nan")), ValueError, "from 0 up, not nan"),
        (lambda c: c.poll(0, 0), ValueError, "max_messages is from 1 to 2147483647, not 0"),
        (lambda c: c.poll(0, "a"), TypeError, "max_messages is an int, not str"),
        (lambda c: c.subscribe([b"t"]), TypeError, "subscribe: a topic is a str, not b't'"),
        (lambda c: c.subscribe(None), TypeError, "subscribe takes a list of topics, not None"),
        (lambda c: c.commit({"t": 1}), TypeError, r"commit takes a dict by \(topic, partition\)"),
    ],
)
def test_consumer(consumer: Consumer, call: Callable[[Any], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call(consumer)


def test_times_and_numbers_of_all_kinds_are_taken(consumer: Consumer) -> None:
    class Number:
        def __index__(self) -> int:
            return 7

    for place in (0, (1 << 63) - 1, Number(), "earliest", None, datetime(1970, 1, 1, tzinfo=UTC), END):
        consumer.assign([("t", 0, place)])  # type: ignore[list-item]
    consumer.assign([["t", Number(), 3]])  # type: ignore[list-item]
    assert consumer.assignment() == [("t", 7)]


@pytest.mark.parametrize(("chosen", "name"), [(None, "NoneType"), ("1", "str"), (1.0, "float"), (True, "bool")])
def test_a_partitioner_returns_an_int(chosen: object, name: str) -> None:
    with FakeBroker() as broker, Producer(broker.settings, partitioner=lambda *_: chosen) as producer:  # type: ignore[arg-type]
        says = f"the partitioner returned {name}: it returns the partition, an int"
        with pytest.raises(grete.RecordTypeError, match=f'a record for topic "orders": {says}'):
            producer.produce("orders", b"v")
        with pytest.raises(grete.RecordTypeError, match=f'record 0 for topic "orders": {says}'):
            producer.produce_many("orders", [b"v"])


def test_a_refused_record_of_many_has_its_index() -> None:
    with FakeBroker() as broker, Producer({**broker.settings, "max.request.size": "2000"}) as producer:
        for records, error, index in (
            ([(b"k", b"v"), (b"k", b"v", None, -1)], grete.RecordTypeError, 1),
            ([b"a", b"b", b"x" * 4000], grete.RecordTooLargeError, 2),
            (3, grete.RecordTypeError, None),
        ):
            with pytest.raises(error) as caught:
                producer.produce_many("orders", records)  # type: ignore[arg-type]
            assert vars(caught.value)["index"] == index
        with pytest.raises(grete.RecordTooLargeError) as caught:
            producer.produce("orders", b"x" * 4000)
        assert caught.value.index is None


@pytest.mark.parametrize("client", [Consumer, ShareConsumer])
@pytest.mark.parametrize("pattern", ["^", "^(", r"^(?=a)b"])
def test_a_subscription_by_what_is_no_pattern_is_refused(client: type[Consumer | ShareConsumer], pattern: str) -> None:
    with client(NOWHERE) as consumer, pytest.raises(grete.ConfigError, match="is no topic pattern"):
        consumer.subscribe(["orders", pattern])


@pytest.mark.parametrize(
    ("records", "error", "says"),
    [
        ("a", TypeError, "max_records is an int, not str"),
        (None, TypeError, "max_records is an int, not None"),
        (0, ValueError, "max_records is from 1 to 2147483647, not 0"),
        (HUGE, ValueError, "max_records is from 1 to 2147483647"),
    ],
)
def test_records_of_a_share_consumer(records: Any, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        ShareConsumer(NOWHERE, max_records=records)


@pytest.mark.parametrize("shared", [False, True])
def test_a_poll_with_wrong_arguments_keeps_the_records_of_the_last_one(shared: bool) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        settings = {"bootstrap.servers": broker.bootstrap_servers, "group.id": "g"}
        with Admin(settings) as admin, Producer(settings) as producer:
            admin.alter_configs("group", "g", {"share.auto.offset.reset": "earliest"})
            for value in (b"1", b"2"):
                producer.produce("t", value)
        with ShareConsumer(settings) if shared else Consumer(settings) as consumer:
            consumer.subscribe(["t"])
            first = consumer.poll(30, 1)
            for timeout, most in (("1", 1), (0, None), (0, HUGE), (float("nan"), 1)):
                with pytest.raises((TypeError, ValueError)):
                    consumer.poll(timeout, most)  # type: ignore[arg-type]
            assert [*first.values(), *consumer.poll(30, 1).values()] == [b"1", b"2"]
            consumer.commit()
