"""The producer's Python side, against a broker that says what a test wants to hear."""

from __future__ import annotations

import array
import contextlib
import gc
import logging
import os
import signal
import socket
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

import grete
from grete.client import Delivery, Producer
from tests.unit.fake_broker import FakeBroker


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "many": 3}) as fake:
        yield fake


@pytest.fixture
def producer(broker: FakeBroker) -> Iterator[Producer]:
    with Producer(broker.settings, max_block=30.0) as made:
        yield made


def silent(_topic: str, _partition: int) -> int | None:
    return None


# Records


def test_a_delivery_says_what_became_of_its_record(producer: Producer) -> None:
    before = time.monotonic()
    delivery = producer.produce("orders", b"value", key=b"key")
    assert (delivery.topic, delivery.partition) == ("orders", 0)
    assert delivery.wait(30.0) is delivery
    assert (delivery.done, delivery.outcome, delivery.offset, delivery.error) == (True, "written", 0, None)
    assert delivery.acknowledged_at is not None
    assert before <= delivery.acknowledged_at <= time.monotonic()
    assert producer.produce_sync("orders", None, timeout=30.0).offset == 1
    assert repr(delivery) == "<Delivery orders[0] offset 0>"


@pytest.mark.parametrize(
    "value", [b"x", bytearray(b"x"), memoryview(b"x"), array.array("i", [1, 2]), memoryview(b"abcd")[1:3], None]
)
def test_whatever_lends_its_bytes_can_be_sent(producer: Producer, value: Any) -> None:
    assert producer.produce_sync("orders", value, key=value, timeout=30.0).outcome == "written"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"value": "text"}, r"value is a str.*value\.encode\(\)"),
        ({"value": 3}, r"value is bytes.*None \(a tombstone\), not int"),
        ({"key": "k"}, r"key is a str.*key\.encode\(\)"),
        ({"partition": "0"}, "partition is an int or None, not str"),
        ({"partition": True}, "not bool"),
        ({"partition": -1}, "from 0 to 2147483647, not -1"),
        ({"partition": 1 << 40}, "from 0 to 2147483647"),
        ({"timestamp": 1.5}, "timestamp is an int .* or a datetime, not float"),
        ({"timestamp": -1}, "milliseconds since 1970, not -1"),
        ({"timestamp": datetime(1960, 1, 1, tzinfo=UTC)}, "before 1970"),
        ({"headers": 3}, "list of .str, bytes. pairs or a dict, not int"),
        ({"headers": [("a",)]}, r"a header is a pair \(str, bytes\)"),
        ({"headers": [(b"a", b"b")]}, "name of a header is a str, not bytes"),
        ({"headers": {"a": "b"}}, r"header \"a\" is a str: give value\.encode\(\)"),
        ({"headers": [("a", 3)]}, "header value is bytes"),
    ],
)
def test_what_cannot_be_sent_is_named_with_its_topic(producer: Producer, arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(grete.RecordTypeError, match=says) as caught:
        producer.produce("orders", **{"value": b"v", **arguments})
    assert isinstance(caught.value, TypeError)
    assert (caught.value.topic, '"orders"' in str(caught.value)) == ("orders", True)
    assert producer.statistics()["pending_records"] == 0


def test_a_topic_is_a_str(producer: Producer) -> None:
    with pytest.raises(grete.RecordTypeError, match=r"a topic is a str or a grete\.Topic, not bytes"):
        producer.produce(b"orders", b"v")  # type: ignore[call-overload]


def test_headers_and_times_of_all_kinds(producer: Producer, broker: FakeBroker) -> None:
    for headers in ([], (), {}, [("a", b"1"), ("a", None)], (("a", b"1"),), {"a": bytearray(b"1"), "b": None}):
        producer.produce("orders", b"v", headers=headers)
    for timestamp in (0, 1_700_000_000_123, datetime.now(UTC), datetime.now(UTC).replace(tzinfo=None)):
        producer.produce("orders", b"v", timestamp=timestamp)
    producer.flush(30.0)
    assert sum(records for _, _, records in broker.produced) == 10


def test_topics_are_distinguished_by_their_names(producer: Producer, broker: FakeBroker) -> None:
    # Built anew each time, so that one object's address may become another's.
    for number in range(2000):
        name = ("orders-" if number % 3 else "many-")[:-1]
        producer.produce(name, b"v")
    producer.flush(30.0)
    counts = {name: sum(n for topic, _, n in broker.produced if topic == name) for name in ("orders", "many")}
    assert counts == {"many": 667, "orders": 1333}


def test_an_unknown_partition_is_not_made_up(producer: Producer) -> None:
    with pytest.raises(grete.UnknownTopicError, match='"many" has no partition 3: it has 3'):
        producer.produce("many", b"v", partition=3)
    assert producer.partitions("many", 30.0) == 3


def test_a_function_may_choose_partitions(broker: FakeBroker) -> None:
    asked: list[tuple[str, object, int]] = []

    def choose(topic: str, key: bytes | None, count: int) -> int:
        asked.append((topic, key, count))
        return int(key or 0)

    with Producer(broker.settings, partitioner=choose) as producer:
        assert [producer.produce("many", b"v", key=b"%d" % n).partition for n in range(3)] == [0, 1, 2]
        assert producer.produce("many", b"v", partition=1).partition == 1
        assert [one.partition for one in producer.produce_many("many", [(b"2", b"v"), (None, b"v")])] == [2, 0]
        with pytest.raises(grete.RecordTypeError, match="chose partition 3 of 3"):
            producer.produce("many", b"v", key=b"3")
        with pytest.raises(ZeroDivisionError):
            Producer(broker.settings, partitioner=lambda *_: 1 // 0).produce("many", b"v")
    assert asked[0] == ("many", b"0", 3)


# Many records


def test_many_records_of_all_shapes(producer: Producer, broker: FakeBroker) -> None:
    shapes: tuple[Any, ...] = (
        [b"a", None, b"c"],
        (b"a", bytearray(b"b"), memoryview(b"c")),
        iter([b"a", b"b", b"c"]),
        [(b"k", b"v"), (None, None, [("h", b"1")]), (b"k", b"v", None, 5)],
        [(b"k", b"v", {"h": None}, datetime.now(UTC)), b"bare", None],
    )
    for records in shapes:
        deliveries = producer.produce_many("orders", records).wait(30.0)
        assert (len(deliveries), deliveries.done, deliveries.errors) == (3, True, [])
        assert [one.offset for one in deliveries] == list(
            range(deliveries[0].offset or 0, (deliveries[-1].offset or 0) + 1)
        )
    assert sum(n for _, _, n in broker.produced) == 15
    assert len(producer.produce_many("orders", [])) == 0
    with pytest.raises(IndexError):
        producer.produce_many("orders", [b"a"]).wait(30.0)[1]


def test_keys_spread_records_and_the_order_stays(producer: Producer) -> None:
    deliveries = producer.produce_many("many", [(b"%d" % n, b"v") for n in range(5000)]).wait(30.0)
    single = [producer.produce("many", b"v", key=b"%d" % n).partition for n in range(5000)]
    assert [one.partition for one in deliveries] == single
    for partition in range(3):
        offsets = [one.offset for one in deliveries if one.partition == partition]
        assert offsets == list(range(len(offsets)))


@pytest.mark.parametrize(
    ("records", "says"),
    [
        ([b"a", "b"], r'record 1 for topic "orders": its value is a str'),
        ([b"a"] * 5000 + [3], "record 5000"),
        ([(b"k", b"v"), ("k", b"v")], "record 1.*key is a str"),
        ([(b"k", b"v", [("h", "1")])], 'record 0.*header "h" is a str'),
        ([(b"v",)], r"record 0.*a tuple of 1; give \(key, value\)"),
        ([(b"k", b"v", None, -5)], "record 0.*milliseconds since 1970"),
        (b"abc", r"not one bytes: give \[value\]"),
        ("abc", "not one str"),
        ({"a": b"b"}, "not one dict"),
        (3, "not int"),
    ],
)
def test_nothing_is_sent_of_many_when_one_cannot_be(
    producer: Producer, broker: FakeBroker, records: Any, says: str
) -> None:
    with pytest.raises(grete.RecordTypeError, match=says):
        producer.produce_many("orders", records)
    assert producer.statistics()["pending_records"] == 0
    producer.produce_sync("orders", b"the first one", timeout=30.0)
    assert broker.produced == [("orders", 0, 1)]


def test_many_records_that_fail_are_all_reported(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, partition: 87 if partition == 1 else 0  # INVALID_RECORD
    with Producer(broker.settings) as producer:
        deliveries = producer.produce_many("many", [(b"%d" % n, b"v") for n in range(100)])
        with pytest.raises(grete.DeliveryError, match=r"\d+ of 100 records were not delivered; the first of them"):
            deliveries.wait(30.0)
        failed = {index for index, error in deliveries.errors if error.name == "INVALID_RECORD"}
        assert failed == {n for n in range(100) if deliveries[n].partition == 1}
        error = deliveries.errors[0][1]
        assert (error.topic, error.partition, error.outcome, error.code) == ("many", 1, "not_written", 87)


# Room and time


def test_without_a_broker_a_new_topic_is_waited_for_and_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        mute = {"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}"}
        for max_block in (0, 0.2):
            producer = Producer(mute, max_block=max_block)
            begin = time.monotonic()
            with pytest.raises(grete.TimeoutError, match='partitions of topic "orders"'):
                producer.produce("orders", b"v")
            assert max_block <= time.monotonic() - begin < max_block + 5
            begin = time.monotonic()
            assert not producer.close(0.5)
            assert time.monotonic() - begin < 5


def test_a_closed_port_is_no_different() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        gone = {"bootstrap.servers": f"127.0.0.1:{listener.getsockname()[1]}"}
    with Producer(gone, max_block=0.2) as producer, pytest.raises(grete.TimeoutError, match="orders"):
        producer.produce_sync("orders", b"v")


def test_an_unknown_topic_is_reported_at_the_timeout(broker: FakeBroker) -> None:
    with Producer(broker.settings, max_block=0.3) as producer:
        with pytest.raises(grete.UnknownTopicError, match='no topic "odrers"') as caught:
            producer.produce("odrers", b"v")
        assert (caught.value.topic, caught.value.code) == ("odrers", 3)


SMALL = {"buffer.memory": 65536, "batch.size": 16384, "linger.ms": 0}


def test_full_memory_is_refused_at_once_or_when_the_time_is_up(broker: FakeBroker) -> None:
    for max_block in (0, 0.3):
        broker.answer = silent
        full = Producer({**broker.settings, **SMALL}, max_block=max_block)
        full.partitions("orders", 30.0)
        with contextlib.suppress(grete.BufferFullError):
            for _ in range(100):
                full.produce("orders", bytes(4000))
        begin = time.monotonic()
        with pytest.raises(grete.BufferFullError, match=r"65536 bytes, buffer\.memory.*\"orders\""):
            full.produce("orders", bytes(4000))
        assert max_block <= time.monotonic() - begin < max_block + 5
        full.close(0)


def test_room_comes_back_when_the_broker_answers(broker: FakeBroker) -> None:
    with Producer({**broker.settings, **SMALL}, max_block=30.0) as producer:
        deliveries = [producer.produce("orders", bytes(4000)) for _ in range(200)]
        producer.flush(30.0)
        assert [one.offset for one in deliveries] == list(range(200))
        many = producer.produce_many("orders", [bytes(4000)] * 200).wait(30.0)
        assert many[199].offset == 399


def test_records_appended_before_the_buffer_was_full_are_reported(broker: FakeBroker) -> None:
    broker.answer = silent
    producer = Producer({**broker.settings, **SMALL}, max_block=0)
    producer.partitions("orders", 30.0)
    with pytest.raises(grete.BufferFullError) as caught:
        producer.produce_many("orders", [bytes(4000)] * 100)
    taken = caught.value.deliveries
    assert taken is not None
    assert 0 < len(taken) < 100
    assert producer.statistics()["pending_records"] == len(taken)
    producer.close(0)


def test_a_record_too_large_is_named(broker: FakeBroker) -> None:
    with Producer({**broker.settings, "max.request.size": 1000}) as producer:
        producer.partitions("orders", 30.0)
        with pytest.raises(grete.RecordTooLargeError, match=r"above the 1000 that max\.request\.size") as caught:
            producer.produce("orders", bytes(1001))
        assert caught.value.topic == "orders"


def test_a_wait_ends_in_time_and_can_go_on(broker: FakeBroker) -> None:
    broker.answer = silent
    producer = Producer(broker.settings)
    delivery = producer.produce("orders", b"v")
    with pytest.raises(grete.TimeoutError, match=r"orders\[0\] within 0\.1 s"):
        delivery.wait(0.1)
    with pytest.raises(grete.TimeoutError, match="1 record is still in flight"):
        producer.flush(0.1)
    assert (delivery.done, delivery.outcome, delivery.error, delivery.offset) == (False, None, None, None)
    producer.close(0)
    assert (delivery.done, delivery.outcome) == (True, "unknown")


@pytest.mark.parametrize("call", ["wait", "produce_sync", "flush", "poll", "room", "close"])
def test_ctrl_c_ends_every_wait(broker: FakeBroker, call: str) -> None:
    broker.answer = silent
    producer = Producer({**broker.settings, **SMALL}, max_block=60.0)
    delivery = producer.produce("orders", bytes(4000))

    asleep = Path(f"/proc/self/task/{threading.get_native_id()}/syscall")

    def interrupt() -> None:
        # Once the main thread sleeps in FUTEX_WAIT or in epoll_wait, which only ours do: Python waits for its lock in
        # another way.
        broker.wait_for_batches(1)
        entered.wait()
        deadline = time.monotonic() + 30.0
        while time.monotonic() < deadline:
            number, _, second = (asleep.read_text().split() + [""] * 3)[:3]
            if second == "0x80" or number in {"232", "281", "22", "441"}:
                break
        signal.pthread_kill(main, signal.SIGINT)

    def fill() -> None:
        while True:
            producer.produce("orders", bytes(4000))

    main, entered = threading.get_ident(), threading.Event()
    interrupting = threading.Thread(target=interrupt)
    interrupting.start()
    calls: dict[str, Callable[[], object]] = {
        "wait": lambda: delivery.wait(60.0),
        "produce_sync": lambda: producer.produce_sync("orders", b"v", timeout=60.0),
        "flush": lambda: producer.flush(60.0),
        "poll": lambda: producer.poll(60.0),
        "room": fill,
        "close": lambda: producer.close(60.0),
    }
    begin = time.monotonic()
    entered.set()
    with pytest.raises(KeyboardInterrupt):
        calls[call]()
    assert time.monotonic() - begin < 30
    interrupting.join()
    broker.answer = lambda _topic, _partition: 0
    producer.close(0)


def test_unacknowledged_records_have_an_unknown_outcome(broker: FakeBroker) -> None:
    with Producer({**broker.settings, "acks": 0}) as producer:
        delivery = producer.produce_sync("orders", b"v", timeout=30.0)
        assert (delivery.outcome, delivery.offset, delivery.error) == ("unknown", None, None)


# Closing


def test_closing_reports_what_it_gave_up(broker: FakeBroker, caplog: pytest.LogCaptureFixture) -> None:
    broker.answer = silent
    producer = Producer(broker.settings)
    delivery = producer.produce("orders", b"v")
    producer.produce("many", b"v", partition=2)
    broker.wait_for_batches(1)
    begin = time.monotonic()
    with caplog.at_level(logging.ERROR, "grete.client"):
        report = producer.close(0.3)
    assert time.monotonic() - begin < 5
    assert (report.count, report.by_topic) == (2, {"orders": 1, "many": 1})
    assert report.unknown >= 1
    assert any("undelivered" in message for message in caplog.messages)
    with pytest.raises(grete.DeliveryError, match="closed before the record was delivered") as caught:
        delivery.wait(0)
    assert caught.value.outcome == delivery.outcome
    assert producer.close().count == 2
    for call in (
        lambda: producer.produce("orders", b"v"),
        lambda: producer.flush(),
        lambda: producer.partitions("orders"),
    ):
        with pytest.raises(grete.ClosedError, match="this producer is closed"):
            call()


def test_leaving_with_records_undelivered_is_an_error(broker: FakeBroker) -> None:
    broker.answer = silent

    def leave(error: BaseException | None = None) -> None:
        with Producer(
            {**broker.settings, "delivery.timeout.ms": 300, "request.timeout.ms": 200, "linger.ms": 0}
        ) as made:
            made.produce("orders", b"v")
            if error is not None:
                raise error

    with pytest.raises(grete.UndeliveredError, match=r"1 record .orders: 1.*1 unknown") as caught:
        leave()
    assert caught.value.undelivered.count == 1
    with pytest.raises(KeyError):
        leave(KeyError())


def test_leaving_a_producer_that_has_failed_is_an_error() -> None:
    def speak_http(listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    def leave() -> None:
        with Producer({"bootstrap.servers": f"127.0.0.1:{port}"}, max_block=30.0) as producer:
            with contextlib.suppress(grete.NotKafkaError):
                producer.produce("orders", b"v")
            with pytest.raises(grete.NotKafkaError):
                producer.produce("orders", b"v")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        threading.Thread(target=speak_http, args=(listener,), daemon=True).start()
        with pytest.raises(grete.NotKafkaError, match="HTTP"):
            leave()


@pytest.mark.own_process
def test_nothing_stays_behind(broker: FakeBroker) -> None:
    def things() -> tuple[set[str], int]:
        names = {path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")}
        return {name for name in names if name.startswith("grete")}, len(list(Path("/proc/self/fd").iterdir()))

    with Producer(broker.settings) as producer:
        producer.produce_sync("orders", b"v", timeout=30.0)
        assert "grete-producer" in things()[0]
    gc.collect()
    # The broker's ends of the connections are of this process, too: they go when their threads see the end.
    deadline = time.monotonic() + 30
    while things()[0] and time.monotonic() < deadline:
        threading.Event().wait(0.01)
    assert things()[0] == set()


def test_an_unclosed_producer_delivers_and_ends(broker: FakeBroker) -> None:
    producer = Producer({**broker.settings, "linger.ms": 60000, "delivery.timeout.ms": 120000})
    producer.partitions("orders", 30.0)
    delivery = producer.produce("orders", b"v")
    watched = weakref.ref(producer)
    del producer
    assert watched() is not None, "a delivery needs its producer"
    del delivery
    gc.collect()
    assert watched() is None
    broker.wait_for_batches(1)


# Callbacks


def test_callbacks_run_where_the_producer_is_used(producer: Producer) -> None:
    called: list[tuple[int, Delivery]] = []
    here = threading.get_ident()

    def callback(delivery: Delivery) -> None:
        called.append((threading.get_ident(), delivery))

    deliveries = [producer.produce("orders", b"v", on_delivery=callback) for _ in range(100)]
    producer.flush(30.0)
    assert [delivery for _, delivery in called] == deliveries
    assert {thread for thread, _ in called} == {here}
    producer.produce("orders", b"v", on_delivery=callback).wait(30.0)
    assert producer.poll(30.0) == 1
    assert producer.poll() == 0
    producer.produce("orders", b"v", on_delivery=callback).wait(30.0)
    deadline = time.monotonic() + 30
    while len(called) < 102 and time.monotonic() < deadline:
        producer.produce("orders", b"v")
    assert len(called) == 102
    producer.produce("orders", b"v", on_delivery=callback)
    producer.close()
    assert len(called) == 103


def test_a_callback_that_raises_breaks_nothing(producer: Producer, caplog: pytest.LogCaptureFixture) -> None:
    called: list[Delivery] = []

    def bad(_: Delivery) -> None:
        raise ValueError("no")

    producer.produce("orders", b"v", on_delivery=bad)
    producer.produce("orders", b"v", on_delivery=called.append)
    with caplog.at_level(logging.ERROR, "grete.client"):
        producer.flush(30.0)
    assert len(called) == 1
    assert any("on_delivery callback" in message and "bad" in message for message in caplog.messages)


def test_an_interrupt_in_a_callback_comes_through_and_the_others_are_called_later(producer: Producer) -> None:
    called: list[Delivery] = []

    def interrupted(_: Delivery) -> None:
        raise KeyboardInterrupt

    producer.produce("orders", b"v", on_delivery=interrupted)
    producer.produce("orders", b"v", on_delivery=called.append)
    with pytest.raises(KeyboardInterrupt):
        producer.flush(30.0)
    producer.flush(30.0)
    assert len(called) == 1


def test_a_callback_may_produce(producer: Producer) -> None:
    left = [50]

    def again(_: Delivery) -> None:
        if left[0]:
            left[0] -= 1
            producer.produce("orders", b"v", on_delivery=again)

    producer.produce("orders", b"v", on_delivery=again)
    while left[0]:
        producer.flush(30.0)
    producer.flush(30.0)
    assert producer.statistics()["written"] == 51


def test_callbacks_hear_of_failures(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, _partition: 87
    heard: list[Delivery] = []
    with Producer(broker.settings) as producer:
        producer.produce("orders", b"v", on_delivery=heard.append)
        producer.flush(30.0)
        assert heard[0].error is not None
        assert heard[0].error.name == "INVALID_RECORD"


@pytest.mark.parametrize("answer", [0, 87], ids=["written", "refused"])
def test_callbacks_have_run_when_a_flush_returns(broker: FakeBroker, answer: int) -> None:
    if answer:
        broker.answer = lambda _topic, _partition: answer
    heard: list[Delivery] = []
    with Producer(broker.settings) as producer:
        for number in range(200):
            delivery = producer.produce("orders", b"v", on_delivery=heard.append)
            many = producer.produce_many("orders", [b"v"] * 3)
            producer.flush(30.0)
            assert (len(heard), delivery.done, many.done) == (number + 1, True, True)


def test_callbacks_have_run_when_a_close_returns(broker: FakeBroker) -> None:
    broker.answer = lambda _topic, _partition: 87
    heard: list[Delivery] = []
    for number in range(50):
        producer = Producer(broker.settings)
        producer.produce("orders", b"v", on_delivery=heard.append)
        producer.close(30.0)
        assert len(heard) == number + 1


@pytest.mark.parametrize("end", [lambda producer: producer.flush(30.0), lambda producer: producer.close(30.0)])
def test_a_callback_in_another_thread_is_waited_for(broker: FakeBroker, end: Callable[[Producer], object]) -> None:
    entered, leave, heard = threading.Event(), threading.Event(), list[str]()

    def hear(_delivery: Delivery) -> None:
        entered.set()
        assert leave.wait(30.0)
        heard.append("callback")

    def finish() -> None:
        end(made)
        heard.append("returned")

    with Producer(broker.settings) as made:
        made.produce("orders", b"v", on_delivery=hear)
        polls = threading.Thread(target=made.poll, args=(30.0,))
        polls.start()
        assert entered.wait(30.0)
        with pytest.raises(grete.TimeoutError, match="callbacks of on_delivery still run in another thread"):
            made.flush(0.01)
        ends = threading.Thread(target=finish)
        ends.start()
        leave.set()
        polls.join(30.0)
        ends.join(30.0)
    assert heard == ["callback", "returned"]


def test_a_callback_may_flush(broker: FakeBroker) -> None:
    heard: list[Delivery] = []

    def hear(delivery: Delivery) -> None:
        made.flush(30.0)
        heard.append(delivery)

    with Producer(broker.settings) as made:
        made.produce("orders", b"v", on_delivery=hear)
        made.flush(30.0)
        assert len(heard) == 1


# Forks


def test_a_child_may_use_none_of_it(producer: Producer) -> None:
    delivery = producer.produce_sync("orders", b"v", timeout=30.0)
    deliveries = producer.produce_many("orders", [b"v"])
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        answers = []
        for call in (
            lambda: producer.produce("orders", b"v"),
            lambda: producer.produce_sync("orders", b"v"),
            lambda: producer.produce_many("orders", [b"v"]),
            lambda: producer.flush(),
            lambda: producer.poll(),
            lambda: producer.close(),
            lambda: delivery.wait(),
            lambda: delivery.offset,
            lambda: deliveries.wait(),
            lambda: len(deliveries),
        ):
            try:
                call()
                answers.append("-")
            except grete.ForkedClientError:
                answers.append("F")
            except BaseException:
                answers.append("E")
        del delivery, deliveries
        with contextlib.suppress(BaseException):
            gc.collect()
        os.write(write_end, "".join(answers).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        answers_of_child = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert answers_of_child == "F" * 10
    deliveries.wait(30.0)
