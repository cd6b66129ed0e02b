"""Payloads of a job: decoded when they are touched, once, and what a decoder that fails says."""

from collections.abc import Callable

import pytest

import grete
from tests.unit.dispatcher_feed import DispatcherFeed


def test_payloads_are_decoded_once_falsy_ones_too() -> None:
    calls: list[bytes] = []

    def decoder(value: bytes) -> int:
        calls.append(value)
        return int(value)

    feed = DispatcherFeed(decoder=decoder)
    feed.push([b"0", b"1", None])
    job = feed.next()
    messages = job.messages
    assert messages is not None
    assert [message.payload for message in messages] == [0, 1, None]
    assert [message.payload for message in messages] == [0, 1, None]
    assert messages[1:].payloads() == [1, None]
    assert calls == [b"0", b"1"]
    seen: list[object] = []
    job.each_payload(seen.append)
    assert seen == [0, 1, None]


def test_equal_touches_give_the_same_object() -> None:
    feed = DispatcherFeed(decoder=lambda value: [value])
    feed.push([b"a", b"b"])
    messages = feed.next().messages
    assert messages is not None
    assert messages[0].payload is messages[:1].payloads()[0]
    assert messages[0].payload is not messages[1].payload


@pytest.mark.parametrize("touch", ["payload", "payloads", "each_payload"])
def test_a_decoder_that_fails_names_the_record(touch: str) -> None:
    feed = DispatcherFeed(decoder=int)
    feed.push([b"1", b"two", b"3"])
    job = feed.next()
    messages = job.messages
    assert messages is not None
    seen: list[object] = []
    touches: dict[str, Callable[[], object]] = {
        "payload": lambda: seen.extend(message.payload for message in messages),
        "payloads": messages.payloads,
        "each_payload": lambda: job.each_payload(seen.append),
    }
    with pytest.raises(grete.DecodeError, match=r"orders\[0\] offset 1 does not decode: ValueError: ") as caught:
        touches[touch]()
    error = caught.value
    assert (error.topic, error.partition, error.offset) == ("orders", 0, 1)
    assert error.message is not None
    assert error.message.value == b"two"
    assert isinstance(error.__cause__, ValueError)
    assert seen == ([] if touch == "payloads" else [1])
    if touch == "each_payload":
        assert job.failed_offset(error) == 1


@pytest.mark.parametrize("error", [grete.Reject("no"), grete.RetryLater(1.0), KeyboardInterrupt()])
def test_what_a_decoder_says_to_the_route_is_no_decode_error(error: BaseException) -> None:
    def decoder(_value: bytes) -> None:
        raise error

    feed = DispatcherFeed(decoder=decoder)
    feed.push([b"1"])
    job = feed.next()
    with pytest.raises(type(error)) as caught:
        job.each_payload(repr)
    assert caught.value is error


def test_without_a_decoder_there_is_no_payload() -> None:
    feed = DispatcherFeed()
    feed.push([b"1"])
    job = feed.next()
    assert job.messages is not None
    with pytest.raises(grete.NoPayloadError, match="payload="):
        _ = job.messages[0].payload
    assert not hasattr(job.messages[0], "payload")
    with pytest.raises(grete.NoPayloadError):
        job.each_payload(repr)
