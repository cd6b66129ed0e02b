"""Dead letters, with a producer made up here."""

import logging
from typing import Any

import pytest

import grete
from grete import _native
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._routing.routes import make_route
from tests.unit.fake_jobs import FakeJob, FakeProducer
from tests.unit.record_batches import Record, batch

ROUTE = make_route(0, ("orders",), lambda messages: None, {"dead_letter": "orders.dlq"})
FIRST, LAST = 1_700_000_000_123, 1_700_000_060_456


def job(
    *, value: bytes | None = b"value", headers: list[tuple[str, bytes | None]] | None = None, text: str = "no"
) -> Any:
    record = Record(17, value, b"key", 1_600_000_000_000, headers or [])
    messages = _native._testing_decode(batch([record]), "orders", 3)
    return FakeJob("dead_letter", messages=messages, failure_history=(5, "app.PaymentError", text, FIRST, LAST))


@pytest.fixture
def producer() -> FakeProducer:
    return FakeProducer()


@pytest.fixture
def letters(producer: Any) -> DeadLetters:
    return DeadLetters(lambda: producer, {0: "billing"})


def refused(kind: type[Exception] = grete.DeliveryError, name: str = "MESSAGE_TOO_LARGE") -> Exception:
    if kind is grete.DeliveryError:
        return grete.DeliveryError("refused", topic="orders.dlq", code=10, name=name)
    return kind("refused")


def test_the_record_goes_whole_and_says_what_has_happened(
    letters: DeadLetters, producer: FakeProducer, caplog: pytest.LogCaptureFixture
) -> None:
    letters.send(
        ROUTE, job(headers=[("trace", b"1"), ("grete.attempts", b"99"), ("grete.replayed", b"2"), ("trace", None)])
    )
    (sent,) = producer.produced
    assert (sent["topic"], sent["value"], sent["key"]) == ("orders.dlq", b"value", b"key")
    assert sent["timestamp"] == 1_600_000_000_000
    assert sent["headers"] == [
        ("trace", b"1"),
        ("grete.replayed", b"2"),
        ("trace", None),
        ("grete.source.topic", b"orders"),
        ("grete.source.partition", b"3"),
        ("grete.source.offset", b"17"),
        ("grete.source.group", b"billing"),
        ("grete.attempts", b"5"),
        ("grete.error.class", b"app.PaymentError"),
        ("grete.error.message", b"no"),
        ("grete.failed.first", b"2023-11-14T22:13:20.123Z"),
        ("grete.failed.last", b"2023-11-14T22:14:20.456Z"),
    ]
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.__dict__["event"] == "consumer.dead_letter"
    text = "orders[3]@17: written to orders.dlq[0]@7 after 5 attempts (app.PaymentError: no)"
    assert text in record.getMessage()


def test_a_tombstone_stays_one(letters: DeadLetters, producer: FakeProducer) -> None:
    letters.send(ROUTE, job(value=None))
    assert producer.produced[0]["value"] is None


def error_text(sent: dict[str, Any]) -> bytes:
    return dict(sent["headers"])["grete.error.message"]  # type: ignore[no-any-return]


def test_an_endless_text_is_cut(letters: DeadLetters, producer: FakeProducer) -> None:
    letters.send(ROUTE, job(text="x" * 100_000 + "\ud800"))
    assert 8000 < len(error_text(producer.produced[0])) < 8300


def test_what_is_too_large_goes_without_the_text(letters: DeadLetters, producer: FakeProducer) -> None:
    producer.errors = [refused(grete.RecordTooLargeError)]
    letters.send(ROUTE, job())
    (sent,) = producer.produced
    assert sent["value"] == b"value"
    assert error_text(sent) == b""


def test_what_the_broker_finds_too_large_goes_without_the_text(letters: DeadLetters, producer: FakeProducer) -> None:
    producer.answers = [refused()]
    letters.send(ROUTE, job())
    assert [error_text(sent) for sent in producer.produced] == [b"no", b""]


@pytest.mark.parametrize(
    ("errors", "answers", "missing", "cure"),
    [
        ([refused(grete.RecordTooLargeError)] * 2, [], False, "raise max.request.size"),
        ([], [refused()] * 2, False, "raise max.message.bytes of the topic"),
        ([], [refused(name="TOPIC_AUTHORIZATION_FAILED")], False, "refused"),
        ([grete.BufferFullError("full")], [], False, "BufferFullError: full"),
        ([], [], True, "grete topics create orders.dlq"),
    ],
)
def test_a_failed_write_is_reported_with_its_remedy(
    letters: DeadLetters,
    producer: FakeProducer,
    errors: list[Exception],
    answers: list[Exception],
    missing: bool,
    cure: str,
) -> None:
    producer.errors, producer.answers, producer.missing = list(errors), list(answers), missing
    with pytest.raises(grete.DeadLetterError, match=r"orders\[3\]@17") as caught:
        letters.send(ROUTE, job())
    assert cure in str(caught.value)
    assert '"orders.dlq"' in str(caught.value)
    assert (caught.value.dead_letter, caught.value.offset) == ("orders.dlq", 17)


def test_a_late_answer_is_waited_for_again_instead_of_sending_twice(
    letters: DeadLetters, producer: FakeProducer
) -> None:
    producer.answers = [grete.TimeoutError("no answer")]
    again = job()
    with pytest.raises(grete.DeadLetterError, match="waits for the same response"):
        letters.send(ROUTE, again)
    letters.send(ROUTE, again)
    assert len(producer.produced) == 1
    producer.answers = [grete.TimeoutError("no answer")]
    with pytest.raises(grete.DeadLetterError):
        letters.send(ROUTE, again)
    letters.forget_lane(again.lane)
    letters.send(ROUTE, again)
    assert len(producer.produced) == 3
