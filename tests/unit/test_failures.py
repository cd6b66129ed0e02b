"""What exceptions come to, and what the log says of it."""

import logging
from typing import Any

import pytest

import grete
from grete.processing.failures import Failures, judge
from grete.processing.hooks import Postponed
from grete.routes import Route, make
from tests.unit.jobs import FakeControl, FakeDecision, FakeDispatcher, FakeJob, messages_of, some


def orders(messages: grete.Messages) -> None:
    """A handler."""


def route(**settings: Any) -> Route:
    return make(0, ("orders",), orders, settings)


def decode_error(offset: int, partition: int = 3) -> grete.DecodeError:
    return grete.DecodeError("no json", topic="orders", partition=partition, offset=offset)


def postponed(hook: str) -> Postponed:
    error = Postponed(hook, 0.7)
    error.__cause__ = OSError("no database")
    return error


class FussyError(Exception):
    def __str__(self) -> str:
        raise RuntimeError


ELSEWHERE = messages_of(b"x", first=5, partition=4)
HERE = messages_of(b"x", first=6)[0]

CASES: list[tuple[BaseException, tuple[str, int | None, float]]] = [
    (ValueError("no"), ("retry", 5, 0.0)),
    (decode_error(6), ("retry", 6, 0.0)),
    (decode_error(99), ("retry", 5, 0.0)),
    (decode_error(6, partition=4), ("retry", 5, 0.0)),
    (grete.Reject("bad"), ("reject", 5, 0.0)),
    (grete.Reject("bad", message=HERE), ("reject", 6, 0.0)),
    (grete.Reject("bad", message=ELSEWHERE[0]), ("reject", 5, 0.0)),
    (grete.RetryLater("2m"), ("later", 5, 120.0)),
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
    verdict = judge(error, job, route(retry=grete.Retry(never=LookupError)))
    assert (verdict.kind, verdict.offset, verdict.delay) == wanted


@pytest.mark.parametrize("error", [ValueError("no"), grete.Reject("no"), grete.RetryLater(5), decode_error(99)])
def test_an_error_of_a_hook_names_no_record(error: Exception) -> None:
    job: Any = FakeJob("tick")
    assert judge(error, job, route()).offset is None


def test_only_what_the_policy_covers_is_retried() -> None:
    job: Any = FakeJob(messages=some())
    only = route(retry=grete.Retry(on=(OSError, TimeoutError)))
    assert judge(TimeoutError(), job, only).kind == "retry"
    assert judge(ConnectionResetError(), job, only).kind == "retry"
    assert judge(ValueError(), job, only).kind == "give_up"


def test_a_dead_letter_that_is_not_written_is_no_case_for_the_policy() -> None:
    error = grete.DeadLetterError("full", dead_letter="orders.dlq", topic="orders", partition=3, offset=5)
    job: Any = FakeJob("dead_letter", messages=some()[:1])
    assert judge(error, job, route(retry=grete.Retry(on=OSError), dead_letter="orders.dlq")).kind == "retry"


DLQ = {"dead_letter": "orders.dlq"}
LINES: list[tuple[BaseException, FakeDecision | None, dict[str, Any], str, int]] = [
    (
        ValueError("no"),
        FakeDecision("retry", wait=0.42),
        {},
        "orders failed (consume, orders[3] offsets 5..6, attempt 1): ValueError: no; retried in 0.4 s (attempt 2 of 5)",
        logging.ERROR,
    ),
    (ValueError("no"), FakeDecision("retry", wait=30.0, attempt=7), {}, "(attempt 7: the 5 are over", logging.ERROR),
    (
        ValueError("no"),
        FakeDecision("retry", wait=30.0, attempt=7),
        {"retry": grete.Retry(attempts=None)},
        "retried in 30.0 s (attempt 7)",
        logging.ERROR,
    ),
    (
        ValueError("no"),
        FakeDecision("halve", rows=6),
        DLQ,
        "in halves, to find the record that fails: 6",
        logging.ERROR,
    ),
    (ValueError("no"), FakeDecision("dead_letter", offset=6), DLQ, "its record 6 goes to orders.dlq", logging.ERROR),
    (ValueError("no"), FakeDecision("refused"), {}, "the partition or its position has moved on", logging.ERROR),
    (ValueError("no"), FakeDecision("hold"), {}, "is the next owner's", logging.ERROR),
    (ValueError("no"), None, {}, "; going on", logging.ERROR),
    (grete.Reject("bad"), FakeDecision("retry", wait=30.0), {}, "the route has no dead_letter", logging.WARNING),
    (grete.Reject("bad"), FakeDecision("dead_letter", offset=5), DLQ, "goes to orders.dlq", logging.WARNING),
    (grete.RetryLater(5, "closed"), FakeDecision("later", wait=5.0), {}, "asked for: again in 5.0 s", logging.INFO),
    (SystemExit(3), FakeDecision("hold"), {}, "the App stops", logging.CRITICAL),
    (postponed("initialize"), FakeDecision("later", wait=0.7), {}, "(initialize, orders[3]", logging.ERROR),
    (
        postponed("initialize"),
        FakeDecision("later", wait=0.7),
        {},
        "OSError: no database; tried again on",
        logging.ERROR,
    ),
    (postponed("commit"), FakeDecision("later", wait=0.7), {}, "(commit, orders[3] offsets 5..6", logging.ERROR),
    (FussyError(), FakeDecision("retry"), {}, "its text cannot be had: RuntimeError", logging.ERROR),
    (ValueError("no"), FakeDecision("skipped"), {}, "these records are lost", logging.ERROR),
]


@pytest.mark.parametrize(("error", "decision", "settings", "text", "level"), LINES)
def test_the_log_says_what_was_decided(
    error: BaseException,
    decision: FakeDecision | None,
    settings: dict[str, Any],
    text: str,
    level: int,
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
    assert (record.levelno, record.name) == (level, "grete")
    assert record.__dict__["event"] == ("consumer.retry" if isinstance(error, grete.RetryLater) else "consumer.error")
    assert record.__dict__["first_offset"] == 5
    assert (record.exc_info is None) == isinstance(error, grete.RetryLater | grete.Reject)
    assert control.errors == ([error] if isinstance(error, SystemExit) else [])


def test_the_native_part_is_told_class_and_text() -> None:
    dispatcher: Any = FakeDispatcher()
    control: Any = FakeControl()
    job: Any = FakeJob(messages=some(), failing=6)
    failures = Failures({0: route()}, dispatcher, control)
    failures.fail(job, FussyError())
    failures.fail(job, ValueError("x" * 100_000))
    (_, verdict, kind, _, offset, _), (_, _, other, text, _, _) = dispatcher.failed
    assert (verdict, kind, offset) == ("retry", f"{__name__}.FussyError", 6)
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
