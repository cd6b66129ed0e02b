"""What exceptions come to, and what the log says of it."""

import json
import logging
import traceback
from datetime import datetime
from typing import Any, cast

import pydantic
import pytest

import grete
from grete import _native, testing
from grete._processing.engine import failure_log
from grete._processing.engine.failure_log import FailurePlace
from grete._processing.engine.failures import OUTPUT_TOPIC_WAIT, Failures, classify
from grete._processing.engine.hook_runner import NotStarted
from grete._processing.events.record_events import RecordEvents
from grete._routing.route_checks import check_topics
from grete._routing.routes import Route, make_route
from grete.instrumentation import Monitor
from tests.unit.fake_jobs import FakeControl, FakeDecision, FakeDispatcher, FakeJob, messages_of, some
from tests.unit.record_batches import Record, batch


def orders(messages: grete.Messages) -> None:
    """A handler."""


def copies(messages: grete.Messages) -> list[bytes]:
    """A handler with results."""
    return []


def route(**settings: Any) -> Route:
    return make_route(0, ("orders",), copies if "publish" in settings else orders, settings)


def decode_error(offset: int, partition: int = 3) -> grete.DecodeError:
    return grete.DecodeError("no json", topic="orders", partition=partition, offset=offset)


def postponed(hook: str, failures: int = 1) -> NotStarted:
    error = NotStarted(hook, 0.7, failures)
    error.__cause__ = OSError("no database")
    return error


class FussyError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


ELSEWHERE = messages_of(b"x", first=5, partition=4)
HERE = messages_of(b"x", first=6)[0]

CASES: list[tuple[BaseException, tuple[str, int | None, float]]] = [
    (ValueError("no"), ("retry", 5, 0.0)),
    (decode_error(6), ("give_up", 6, 0.0)),
    (decode_error(99), ("give_up", 5, 0.0)),
    (decode_error(6, partition=4), ("give_up", 5, 0.0)),
    (grete.Reject("bad"), ("reject", 5, 0.0)),
    (grete.Reject("bad", message=HERE), ("reject", 6, 0.0)),
    (grete.Reject("bad", message=ELSEWHERE[0]), ("reject", 5, 0.0)),
    (grete.RetryLater("2m"), ("later", 5, 120.0)),
    (grete.BatchResultError("no", handler="copies", expected=2, got=1), ("give_up_all", None, 0.0)),
    (LookupError("never"), ("give_up", 5, 0.0)),
    (KeyError("never"), ("give_up", 5, 0.0)),
    (GeneratorExit(), ("retry", 5, 0.0)),
    (SystemExit(1), ("fatal", None, 0.0)),
    (KeyboardInterrupt(), ("fatal", None, 0.0)),
    (MemoryError(), ("fatal", None, 0.0)),
    (ExceptionGroup("tasks", [grete.Reject("bad", message=HERE)]), ("reject", 6, 0.0)),
    (ExceptionGroup("tasks", [grete.Reject("bad"), ValueError()]), ("retry", 5, 0.0)),
    (BaseExceptionGroup("tasks", [ValueError(), SystemExit(1)]), ("fatal", None, 0.0)),
    (postponed("initialize"), ("later", None, 0.7)),
]


@pytest.mark.parametrize(("error", "wanted"), CASES, ids=lambda x: repr(x)[:40] if isinstance(x, BaseException) else "")
def test_an_exception_is_judged_by_its_kind(error: BaseException, wanted: tuple[str, int | None, float]) -> None:
    job: Any = FakeJob(messages=some(), failing=5)
    action = classify(error, job, route(retry=grete.Retry(never=LookupError)))
    assert (action.kind, action.offset, action.delay) == wanted


@pytest.mark.parametrize("error", [ValueError("no"), grete.Reject("no"), grete.RetryLater(5), decode_error(99)])
def test_an_error_of_a_hook_names_no_record(error: Exception) -> None:
    job: Any = FakeJob("tick")
    assert classify(error, job, route()).offset is None


def test_only_what_the_policy_covers_is_retried() -> None:
    job: Any = FakeJob(messages=some())
    only = route(retry=grete.Retry(on=(OSError, TimeoutError)))
    assert classify(TimeoutError(), job, only).kind == "retry"
    assert classify(ConnectionResetError(), job, only).kind == "retry"
    assert classify(ValueError(), job, only).kind == "give_up"


def test_a_result_without_a_topic_is_no_fault_of_its_record() -> None:
    job: Any = FakeJob(messages=some(), failing=5)
    published = route(retry=grete.Retry(1), publish="invoices")
    missing = grete.UnknownTopicError("whatever the text is", topic="invoices")
    action = classify(missing, job, published)
    assert (action.kind, action.offset, action.delay) == ("later", 5, OUTPUT_TOPIC_WAIT)
    other = grete.UnknownTopicError('there is no topic "copies": check the name', topic="copies")
    assert classify(other, job, published).kind == "retry"
    partition = grete.UnknownTopicError("there is no topic with a partition 9", topic="invoices", partition=9)
    assert classify(partition, job, published).kind == "retry", "the record names a partition that never exists"


def test_a_dead_letter_that_is_not_written_is_no_case_for_the_policy() -> None:
    error = grete.DeadLetterError("full", dead_letter="orders.dlq", topic="orders", partition=3, offset=5)
    job: Any = FakeJob("dead_letter", messages=some()[:1])
    assert classify(error, job, route(retry=grete.Retry(on=OSError), dead_letter="orders.dlq")).kind == "retry"


DLQ = {"dead_letter": "orders.dlq"}
SECOND = "attempt 2 not before 14:03:07.420"
# error, decision, settings, text in the line, level, whether the log has the traceback
Case = tuple[BaseException, FakeDecision | None, dict[str, Any], str, int, bool]
LINES: list[Case] = [
    (
        ValueError("no"),
        FakeDecision("retry", wait=0.42),
        {},
        f"orders[3]@5..6: orders failed (attempt 1 of 5): ValueError: no; {SECOND}",
        logging.WARNING,
        True,
    ),
    (ValueError("no"), FakeDecision("retry", wait=0.42, attempt=3), {}, "(attempt 2 of 5): ", logging.WARNING, False),
    (ValueError("no"), FakeDecision("retry", attempt=5), {}, "5 as soon as a worker is free", logging.WARNING, False),
    (ValueError("no"), FakeDecision("retry", wait=30.0, attempt=6), {}, ": all 5 attempts failed", logging.ERROR, True),
    (ValueError("no"), FakeDecision("retry", wait=30.0, attempt=7), {}, "failed (attempt 6): V", logging.ERROR, False),
    (
        ValueError("no"),
        FakeDecision("retry", wait=30.0, attempt=7),
        {"retry": grete.Retry(attempts=None)},
        "attempt 7 not before 14:03:37.000",
        logging.WARNING,
        False,
    ),
    (
        ValueError("no"),
        FakeDecision("bisect", rows=6),
        DLQ,
        "in halves, to find the record that fails: 6",
        logging.WARNING,
        True,
    ),
    (
        ValueError("no"),
        FakeDecision("dead_letter", offset=6),
        DLQ,
        "record 6 goes to orders.dlq",
        logging.ERROR,
        True,
    ),
    (
        ValueError("no"),
        FakeDecision("refused"),
        {},
        "the partition was revoked or its position has changed",
        logging.WARNING,
        True,
    ),
    (
        grete.RevokedError("gone"),
        FakeDecision("refused"),
        {},
        "its records belong to another job now",
        logging.WARNING,
        False,
    ),
    (ValueError("no"), FakeDecision("halt"), {}, "will be processed by its next owner", logging.ERROR, True),
    (ValueError("no"), None, {}, "; the App goes on", logging.ERROR, True),
    (grete.Reject("bad"), FakeDecision("retry", wait=30.0), {}, "the route has no dead_letter", logging.WARNING, False),
    (grete.Reject("bad"), FakeDecision("dead_letter", offset=5), DLQ, "goes to orders.dlq", logging.WARNING, False),
    (
        grete.RetryLater(5, "closed"),
        FakeDecision("later", wait=5.0),
        {},
        "next attempt not before 14:03:12.000, as requested",
        logging.INFO,
        False,
    ),
    (
        grete.UnknownTopicError('there is no topic "invoices"', topic="invoices"),
        FakeDecision("later", wait=5.0),
        {"publish": "invoices"},
        "next attempt not before 14:03:12.000; until then its partition waits for the topic of publish=",
        logging.WARNING,
        False,
    ),
    (SystemExit(3), FakeDecision("halt"), {}, "the App stops", logging.CRITICAL, True),
    (
        postponed("initialize"),
        FakeDecision("later", wait=0.7),
        {},
        "orders[3]@5..6: orders.initialize failed (attempt 1): OSError: no database; a new instance tries again not",
        logging.WARNING,
        True,
    ),
    (
        postponed("commit", failures=2),
        FakeDecision("later", wait=0.7),
        {},
        "orders[3]@5..6: the commit for orders failed (attempt 2): OSError",
        logging.WARNING,
        False,
    ),
    (FussyError(), FakeDecision("retry"), {}, "its text is not available: RuntimeError", logging.WARNING, True),
    (ValueError("no"), FakeDecision("skipped"), {}, "these records are lost", logging.ERROR, True),
]


@pytest.fixture
def three_past_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is 14:03:07 in the local time zone."""
    now = datetime(2026, 5, 4, 14, 3, 7).astimezone().timestamp()
    monkeypatch.setattr(failure_log.report_failure, "__kwdefaults__", {"now": lambda: now})


@pytest.mark.usefixtures("three_past_two")
@pytest.mark.parametrize(("error", "decision", "settings", "text", "level", "traceback"), LINES)
def test_the_log_says_what_was_decided(
    error: BaseException,
    decision: FakeDecision | None,
    settings: dict[str, Any],
    text: str,
    level: int,
    traceback: bool,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.INFO)
    dispatcher: Any = FakeDispatcher()
    control: Any = FakeControl()
    dispatcher.decision = decision
    job: Any = FakeJob(messages=some())
    Failures({0: route(**settings)}, dispatcher, control).fail(job, error)
    (record,) = caplog.records
    assert text in record.getMessage()
    assert "\n" not in record.getMessage()
    assert (record.levelno, record.name) == (level, "grete")
    assert record.__dict__["event"] == ("consumer.retry" if isinstance(error, grete.RetryLater) else "consumer.error")
    assert record.__dict__["first_offset"] == 5
    assert (record.exc_info is not None) == traceback
    assert control.errors == ([error] if isinstance(error, SystemExit) else [])


def failed(job: FakeJob, error: BaseException, decision: FakeDecision, caplog: pytest.LogCaptureFixture) -> Any:
    """The log record of one failure."""
    caplog.set_level(logging.INFO)
    dispatcher: Any = FakeDispatcher()
    dispatcher.decision = decision
    control: Any = FakeControl()
    given: Any = job
    Failures({0: route(dead_letter="orders.dlq")}, dispatcher, control, groups={0: "billing"}).fail(given, error)
    return caplog.records[-1]


def test_the_line_names_the_record_that_failed_and_has_its_facts_as_fields(caplog: pytest.LogCaptureFixture) -> None:
    job = FakeJob(messages=some(), failing=6, attempt=2)
    record = failed(job, ValueError("no\nmoney"), FakeDecision("retry", wait=0.5, attempt=3), caplog)
    assert record.getMessage().startswith("orders[3]@6: orders failed (attempt 2 of 5): ValueError: no money; ")
    wanted = {
        "topic": "orders",
        "partition": 3,
        "offset": 6,
        "attempt": 2,
        "group": "billing",
        "handler": "orders",
        "error": "ValueError: no money",
        "decision": "retry",
    }
    assert {name: record.__dict__[name] for name in wanted} == wanted
    assert record.not_before > record.created


def test_twenty_records_with_three_attempts_are_two_hundred_lines_and_not_a_thousand(
    caplog: pytest.LogCaptureFixture,
) -> None:
    class Order(pydantic.BaseModel):
        amount: int
        name: str

    def lines_of(attempt: int) -> int:
        messages = _native._testing_decode(
            batch([Record(6, b'{"amount": "many"}')]), "orders", 3, decoder=Order.model_validate_json
        )
        with pytest.raises(grete.DecodeError) as caught:
            messages[0].payload  # noqa: B018
        last = attempt == 3
        decision = FakeDecision("dead_letter", offset=6) if last else FakeDecision("retry", attempt=attempt + 1)
        record = failed(FakeJob(messages=messages, attempt=attempt), caught.value, decision, caplog)
        text = logging.Formatter("%(message)s").format(record)
        assert "Input should be a valid integer" in text
        assert "further information" not in text
        return len(text.splitlines())

    assert 20 * sum(lines_of(attempt) for attempt in (1, 2, 3)) <= 200


def test_a_dead_letter_has_no_link_to_pydantics_site() -> None:
    class Order(pydantic.BaseModel):
        amount: int
        name: str

    app = grete.App("strict")

    @app.consumer("orders", payload=Order, dead_letter="orders.dlq")
    def charge(order: Order) -> None:
        raise AssertionError(order)

    (letter,) = testing.consume(app, "orders", [b'{"amount": "many"}']).dead
    assert "Input should be a valid integer" in letter.error_message
    assert "Field required" in letter.error_message
    assert "further information" not in letter.error_message
    assert letter.error_message.splitlines()[-1].strip(), "and no empty line in its place"


def test_a_traceback_has_the_users_frames_alone(caplog: pytest.LogCaptureFixture) -> None:
    def charge(message: grete.Message) -> None:
        raise ValueError(message.offset)

    wrapped = RecordEvents(Monitor(), "charge").wrap(cast("Any", FakeJob()), charge, decoded=False)
    with pytest.raises(ValueError, match="5") as caught:
        wrapped(some()[0])
    assert "record_events.py" in "".join(traceback.format_exception(caught.value))
    record = failed(FakeJob(messages=some()), caught.value, FakeDecision("retry"), caplog)
    text = logging.Formatter("%(message)s").format(record)
    assert "raise ValueError(message.offset)" in text
    assert "record_events.py" not in text
    assert "record_events.py" in "".join(traceback.format_exception(caught.value)), "the error itself was changed"


def test_an_error_without_a_frame_of_the_user_keeps_ours(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(AttributeError) as caught:
        FailurePlace.of(cast("Any", None))
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # type: ignore[union-attr]
    record = failed(FakeJob(messages=some()), caught.value, FakeDecision("retry"), caplog)
    assert "failure_log.py" in logging.Formatter("%(message)s").format(record)


def test_an_error_of_gretes_own_has_no_traceback_of_gretes_frames_alone(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(grete.ConfigError) as caught:
        check_topics(())
    caught.value.__traceback__ = caught.value.__traceback__.tb_next  # type: ignore[union-attr]
    record = failed(FakeJob(messages=some()), caught.value, FakeDecision("retry"), caplog)
    assert record.exc_info is None
    assert "a consumer needs a topic" in record.getMessage()
    caught.value.__cause__ = ValueError("why")
    record = failed(FakeJob(messages=some()), caught.value, FakeDecision("retry"), caplog)
    assert record.exc_info is not None, "the cause says more"


def test_the_error_of_a_users_decoder_is_shown_once(caplog: pytest.LogCaptureFixture) -> None:
    def decode(value: bytes) -> object:
        raise LookupError(f"no product {value!r}")

    messages = _native._testing_decode(batch([Record(6, b"x")]), "orders", 3, decoder=decode)
    with pytest.raises(grete.DecodeError) as caught:
        messages[0].payload  # noqa: B018
    record = failed(FakeJob(messages=messages), caught.value, FakeDecision("retry"), caplog)
    text = logging.Formatter("%(message)s").format(record)
    assert text.startswith("orders[3]@6: orders failed (attempt 1 of 5): grete.errors.DecodeError: does not decode: Lo")
    assert text.count("no product b'x'") == 2, "in the line and in the traceback"
    assert "in decode" in text


def test_the_native_part_gets_class_and_text() -> None:
    dispatcher: Any = FakeDispatcher()
    control: Any = FakeControl()
    job: Any = FakeJob(messages=some(), failing=6)
    failures = Failures({0: route()}, dispatcher, control)
    failures.fail(job, FussyError())
    failures.fail(job, ValueError("x" * 100_000))
    (_, action, kind, _, offset, _), (_, _, other, text, _, _) = dispatcher.failed
    assert (action, kind, offset) == ("retry", f"{__name__}.FussyError", 6)
    assert other == "ValueError"
    assert len(text) < 20_000
    assert text.endswith("…")


def test_a_fatal_error_stops_the_dispatcher_before_the_job_is_given_back() -> None:
    order: list[str] = []
    dispatcher: Any = FakeDispatcher()
    dispatcher.fail = lambda *_, **__: order.append("fail")
    control: Any = FakeControl()
    control.fail = lambda error: order.append("stop")
    job: Any = FakeJob(messages=some())
    Failures({0: route()}, dispatcher, control).fail(job, SystemExit(2))
    assert order == ["stop", "fail"]


def test_a_text_that_is_no_unicode_is_escaped(caplog: pytest.LogCaptureFixture) -> None:
    def fail(message: grete.Message) -> None:
        raise ValueError(json.loads('"\\ud800"'))

    # A traceback in the report of this test could not be sent between processes.
    with caplog.at_level(logging.CRITICAL + 1, logger="grete"):
        run = testing.consume(fail, "orders", [b"1"], retry=grete.Retry(attempts=1), dead_letter="orders.dlq")
    assert [(letter.error, letter.error_message) for letter in run.dead] == [("ValueError", r"\ud800")]
