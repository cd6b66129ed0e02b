"""Objects that threads share: what docs/architecture/free-threading.md lists, on every build of Python."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from grete import _native
from grete.client import Producer
from tests.unit.fake_broker import FakeBroker
from tests.unit.record_batches import Record, batch

THREADS = 4
TOPICS = [f"orders-{number}" for number in range(12)]  # more than a producer's cache of topics has entries


@pytest.fixture
def producer() -> Iterator[Producer]:
    with FakeBroker(dict.fromkeys(TOPICS, 1)) as broker, Producer(broker.settings, max_block=30.0) as made:
        yield made


def side_by_side(work: Callable[[int], Any]) -> list[Any]:
    """Returns what `work(number)` returns in each of several threads that begin together."""
    begin = threading.Barrier(THREADS)

    def run(number: int) -> Any:
        begin.wait(30.0)
        return work(number)

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(run, range(THREADS)))


def test_threads_that_share_an_iterator_get_each_message_once() -> None:
    messages = _native._testing_decode(batch([Record(offset, b"x") for offset in range(2000)]), "orders", 0)
    shared = iter(messages)
    found = side_by_side(lambda _: [(message.offset, message) for message in shared])
    assert sorted(offset for part in found for offset, _ in part) == list(range(2000))
    assert all(message.offset == offset for part in found for offset, message in part)


def test_threads_get_the_same_payload_of_a_record() -> None:
    rows = [Record(offset, str(offset).encode()) for offset in range(500)]
    messages = _native._testing_decode(batch(rows), "orders", 0, decoder=lambda value: [value])
    found = side_by_side(lambda _: [message.payload for message in messages])
    for one in found[1:]:
        assert all(mine is theirs for mine, theirs in zip(one, found[0], strict=True))


def test_threads_that_share_an_iterator_over_deliveries_get_each_once(producer: Producer) -> None:
    deliveries = producer.produce_many(TOPICS[0], [b"x"] * 500)
    deliveries.wait(30.0)
    shared = iter(deliveries)
    found = side_by_side(lambda _: [delivery.offset for delivery in shared])
    assert sorted(offset for part in found for offset in part) == list(range(500))


def test_each_record_goes_to_its_own_topic(producer: Producer) -> None:
    for topic in TOPICS:
        producer.partitions(topic)

    def produce(number: int) -> list[tuple[str, str]]:
        names = [f"{topic}" for topic in TOPICS[number:] + TOPICS[:number]]  # other objects than those of other threads
        return [(name, producer.produce(name, b"x").topic) for _ in range(100) for name in names]

    for pairs in side_by_side(produce):
        assert all(wanted == got for wanted, got in pairs)


def test_a_flush_returns_after_the_callbacks_of_its_thread(producer: Producer) -> None:
    def produce(number: int) -> None:
        for round_number in range(50):
            called: list[object] = []
            for _ in range(3):
                producer.produce(TOPICS[number], b"x", on_delivery=called.append)
            producer.flush(30.0)
            assert len(called) == 3, f"round {round_number} of thread {number}"

    side_by_side(produce)


def test_headers_may_change_while_they_are_read(producer: Producer) -> None:
    headers: dict[str, bytes] = {}
    done = threading.Event()

    def change(number: int) -> None:
        if number == 0:
            for _ in range(300):
                producer.produce(TOPICS[0], b"x", headers=headers)
            done.set()
        while not done.is_set():
            headers[f"name-{number}"] = b"x"
            headers.pop(f"name-{number}")

    side_by_side(change)
