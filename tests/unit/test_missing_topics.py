"""Topics that do not exist: how soon a call ends, and with what."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import grete
from grete import _native
from grete.client import Producer
from tests.unit.fake_broker import FakeBroker

MISSING = r'there is no topic "invoicez": check the name.*create the topic \(grete topics create invoicez\)'


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "invoices": 1}) as fake:
        yield fake


@pytest.fixture
def producer(broker: FakeBroker) -> Iterator[Producer]:
    with Producer(broker.settings, max_block=60.0) as made:
        yield made


def waited(call: Callable[[], object], match: str = MISSING) -> float:
    """How long it took, in seconds, until the call said that there is no such topic."""
    started = time.monotonic()
    with pytest.raises(grete.UnknownTopicError, match=match) as caught:
        call()
    assert caught.value.topic == "invoicez"
    return time.monotonic() - started


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.produce("invoicez", b"v"),
        lambda producer: producer.produce("invoicez", b"v", partition=0),
        lambda producer: producer.produce_sync("invoicez", b"v"),
        lambda producer: producer.produce_many("invoicez", [b"v", b"w"]),
        lambda producer: producer.partitions("invoicez", 60.0),
        lambda producer: asyncio.run(producer.send("invoicez", b"v")),
    ],
    ids=["produce", "to a partition", "produce_sync", "produce_many", "partitions", "send"],
)
def test_a_call_waits_a_second_and_for_one_more_answer(producer: Producer, call: Callable[[Producer], object]) -> None:
    for _ in range(2):
        assert 1.0 <= waited(lambda: call(producer)) < 20.0


def test_a_similar_name_is_suggested(producer: Producer) -> None:
    producer.produce_sync("invoices", b"v")
    waited(lambda: producer.produce("invoicez", b"v"), match=r'\(did you mean "invoices"\?\)')


def test_a_topic_that_is_made_meanwhile_is_found(broker: FakeBroker, producer: Producer) -> None:
    waited(lambda: producer.produce("invoicez", b"v"))
    broker.topics["invoicez"] = 1
    assert producer.produce_sync("invoicez", b"v", timeout=30.0).outcome == "written"


def test_how_long_is_a_setting(broker: FakeBroker) -> None:
    with Producer({**broker.settings, "topic.metadata.propagation.max.ms": 0}, max_block=60.0) as producer:
        assert waited(lambda: producer.produce("invoicez", b"v")) < 1.0


def test_where_topics_are_made_on_the_way_max_block_counts(broker: FakeBroker) -> None:
    with Producer({**broker.settings, "allow.auto.create.topics": "true"}, max_block=3.0) as producer:
        assert waited(lambda: producer.produce("invoicez", b"v")) >= 3.0


@pytest.mark.parametrize("missing", [True, False], ids=["a topic that is not there", "no broker"])
def test_a_stop_does_not_wait(broker: FakeBroker, missing: bool) -> None:
    settings = {**broker.settings, "topic.metadata.propagation.max.ms": 60_000}
    producer = Producer(settings if missing else {"bootstrap.servers": "127.0.0.1:1"}, max_block=60.0)
    stop = _native.Shutdown(_native.Dispatcher(), 60.0)
    assert stop.add_producer(producer)
    ended: list[tuple[float, BaseException]] = []
    entered = threading.Event()

    def call() -> None:
        entered.set()
        try:
            producer.produce("invoicez", b"v")
        except grete.GreteError as error:
            ended.append((time.monotonic(), error))

    waiting = threading.Thread(target=call, daemon=True)
    waiting.start()
    assert entered.wait(30.0)
    began = time.monotonic()
    stop.begin()
    waiting.join(30.0)
    [(at, error)] = ended
    assert at - began < 10.0
    assert isinstance(error, grete.UnknownTopicError if missing else grete.TimeoutError)
    assert missing or "the App stops" in str(error)
    producer.close(0.0)
    stop.finish()
