"""Requests and answers get lost, come late or come as noise: what a delivery says is what is in the log."""

from __future__ import annotations

import time

import pytest

import grete
from tests.integration.frame_proxy import (
    INIT_PRODUCER_ID,
    FrameAction,
    FrameProxy,
    Request,
    always,
    first,
)
from tests.integration.producers import quick, values
from tests.kafka import KafkaCluster
from tests.kafka.stored_batches import assert_sequences, batches

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]


def is_sound(broker: KafkaCluster, topic: str, expected: list[bytes]) -> None:
    """These records, in this order, and sequence numbers without a gap."""
    assert values(broker, topic) == expected
    assert_sequences(batches(broker, topic))


def test_an_answer_that_is_lost_is_no_record_that_is_lost(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """P38: the same batch is sent again under the same numbers, and the broker knows it."""
    proxy.treat(answers=first(1, FrameAction.DROP))
    with quick(broker.bootstrap_servers) as producer:
        delivery = producer.produce_sync(topic, b"once", timeout=30.0)
        assert delivery.outcome == "written"
        lost, again = proxy.requests[:2]
        assert lost.content == again.content
        assert producer.produce_sync(topic, b"next", timeout=30.0).offset == 1
    is_sound(broker, topic, [b"once", b"next"])


@pytest.mark.parametrize("lost", ["answers", "requests"])
def test_what_may_be_written_is_unknown(broker: KafkaCluster, proxy: FrameProxy, topic: str, lost: str) -> None:
    """P38: the outcome cannot be known; neither is claimed, and the producer goes on in a new epoch."""
    with quick(broker.bootstrap_servers, delivery_timeout_ms=2000) as producer:
        assert producer.produce_sync(topic, b"first", timeout=30.0).outcome == "written"
        proxy.treat(**{lost: always(FrameAction.DROP)})  # type: ignore[arg-type]
        started = time.monotonic()
        with pytest.raises(grete.DeliveryError, match=topic) as caught:
            producer.produce_sync(topic, b"maybe", timeout=30.0)
        assert 1.5 < time.monotonic() - started < 15.0
        assert (caught.value.topic, caught.value.partition, caught.value.outcome) == (topic, 0, "unknown")
        proxy.treat()
        assert producer.produce_sync(topic, b"next", timeout=30.0).outcome == "written"
    is_sound(broker, topic, [b"first", *[b"maybe"] * (lost == "answers"), b"next"])


def test_what_was_never_sent_is_not_written(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """Without a producer id there is nothing to send."""
    proxy.treat(api=INIT_PRODUCER_ID, answers=always(FrameAction.DROP))
    with quick(proxy.address, delivery_timeout_ms=2000) as producer:
        delivery = producer.produce(topic, b"never")
        with pytest.raises(grete.DeliveryError, match=topic) as caught:
            delivery.wait(30.0)
        assert caught.value.outcome == delivery.outcome == "not_written"
        proxy.treat()
        assert producer.produce_sync(topic, b"next", timeout=30.0).outcome == "written"
    is_sound(broker, topic, [b"next"])


def test_noise_instead_of_an_answer_splits_nothing(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """P39: an unreadable answer says nothing about the batch's size."""
    records = [b"%d" % index for index in range(50)]
    proxy.treat(answers=first(2, FrameAction.CORRUPT))
    with quick(broker.bootstrap_servers, linger_ms=50) as producer:
        deliveries = producer.produce_many(topic, records)
        deliveries.wait(30.0)
        assert not deliveries.errors
        attempts = proxy.requests
        assert len(attempts) == 3
        assert len({attempt.content for attempt in attempts}) == 1, "the same batch each time"
    is_sound(broker, topic, records)
    assert [batch.count for batch in batches(broker, topic)] == [50]


@pytest.mark.parametrize(
    ("which", "action"),
    [
        ("requests", FrameAction.DISCONNECT),
        ("requests", FrameAction.DROP),
        ("answers", FrameAction.DISCONNECT),
        ("answers", FrameAction.DROP),
        ("answers", FrameAction.CORRUPT),
    ],
    ids=lambda value: value.name if isinstance(value, FrameAction) else value,
)
def test_order_is_kept_over_what_goes_wrong(
    broker: KafkaCluster, proxy: FrameProxy, topic: str, which: str, action: FrameAction
) -> None:
    """Several batches of a partition are under way when one in three goes wrong, for a while."""

    def now_and_then(request: Request) -> FrameAction:
        return action if request.number in (1, 4, 7, 10, 13) else FrameAction.PASS

    proxy.treat(**{which: now_and_then})  # type: ignore[arg-type]
    records = [b"%04d" % index + bytes(200) for index in range(400)]
    with quick(broker.bootstrap_servers, linger_ms=0, batch_size=1000) as producer:
        deliveries = [producer.produce(topic, record) for record in records]
        for delivery in deliveries:
            assert delivery.wait(60.0).outcome == "written"
        assert [delivery.offset for delivery in deliveries if delivery.offset is not None] == [
            index for index, delivery in enumerate(deliveries) if delivery.offset is not None
        ]
    is_sound(broker, topic, records)


def test_an_answer_that_comes_late_wakes_who_waits(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    proxy.treat(answers=always(FrameAction.HOLD))
    with quick(broker.bootstrap_servers, request_timeout_ms=20_000) as producer:
        delivery = producer.produce(topic, b"late")
        with pytest.raises(TimeoutError, match=topic):
            delivery.wait(0.3)
        assert (delivery.done, delivery.outcome, delivery.offset, delivery.error) == (False, None, None, None)
        proxy.wait_requests(1)
        proxy.release()
        assert delivery.wait(10.0) is delivery
        assert (delivery.done, delivery.outcome, delivery.offset) == (True, "written", 0)
        assert len(proxy.requests) == 1
    is_sound(broker, topic, [b"late"])


def test_an_answer_that_comes_after_the_request_was_given_up(
    broker: KafkaCluster, proxy: FrameProxy, topic: str
) -> None:
    proxy.treat(answers=first(1, FrameAction.HOLD))
    with quick(broker.bootstrap_servers) as producer:
        assert producer.produce_sync(topic, b"once", timeout=30.0).outcome == "written"
        assert len(proxy.requests) == 2
        proxy.release()
        assert producer.produce_sync(topic, b"next", timeout=30.0).offset == 1
    is_sound(broker, topic, [b"once", b"next"])


def test_acks_1_and_0_say_what_they_know(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    with quick(broker.bootstrap_servers, acks="1") as producer:
        assert producer.produce_sync(topic, b"one", timeout=30.0).offset == 0
    with quick(broker.bootstrap_servers, acks="0") as producer:
        delivery = producer.produce(topic, b"none").wait(30.0)
        assert (delivery.outcome, delivery.offset) == ("unknown", None)
    assert values(broker, topic) == [b"one", b"none"]


def test_flush_and_close_keep_their_time(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    proxy.treat(answers=always(FrameAction.HOLD))
    producer = quick(broker.bootstrap_servers, request_timeout_ms=30_000)
    deliveries = producer.produce_many(topic, [b"a", b"b", b"c"])
    started = time.monotonic()
    with pytest.raises(TimeoutError, match="3"):
        producer.flush(0.5)
    # Without their limit both would wait for the request's 30 s.
    assert 0.5 <= time.monotonic() - started < 10.0
    assert [delivery.done for delivery in deliveries] == [False] * 3
    proxy.release()
    producer.flush(10.0)
    assert deliveries.done
    proxy.treat(answers=always(FrameAction.HOLD))
    producer.produce_many(topic, [b"d", b"e"])
    proxy.wait_requests(1)
    started = time.monotonic()
    report = producer.close(0.5)
    assert 0.5 <= time.monotonic() - started < 10.0
    assert (report.count, report.by_topic, report.not_written, report.unknown) == (2, {topic: 2}, 0, 2)
    proxy.release()
    is_sound(broker, topic, [b"a", b"b", b"c", b"d", b"e"])


def test_leaving_the_block_raises_what_could_not_be_delivered(
    broker: KafkaCluster, proxy: FrameProxy, topic: str
) -> None:
    def leave(error: Exception | None) -> None:
        proxy.treat()
        with quick(broker.bootstrap_servers, delivery_timeout_ms=1500) as producer:
            producer.produce_sync(topic, b"first", timeout=30.0)
            proxy.treat(answers=always(FrameAction.DROP))
            producer.produce(topic, b"lost")
            if error is not None:
                raise error

    with pytest.raises(grete.UndeliveredError, match=topic):
        leave(None)
    # An error of the block itself is not covered up.
    with pytest.raises(ZeroDivisionError):
        leave(ZeroDivisionError())
