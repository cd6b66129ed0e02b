"""Classification of a job's exception, and its effect on the records."""

import logging
from collections.abc import Callable, Mapping
from typing import NamedTuple

from grete import _native
from grete._native import Job
from grete._processing.engine.failure_log import (
    TEXT,
    FailureAction,
    FailurePlace,
    is_output_topic_missing,
    report_failure,
)
from grete._processing.engine.hook_runner import FATAL, AlreadyFailed, NotStarted
from grete._processing.engine.run_control import RunControl
from grete._routing.routes import Route
from grete.errors import BatchResultError, DecodeError, Reject, RetryLater
from grete.instrumentation._logging.error_report import class_name, error_text
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Seconds until a record is tried again whose result has no topic.
OUTPUT_TOPIC_WAIT = 10.0


def classify(error: BaseException, job: Job, route: Route) -> FailureAction:
    """Classifies the error of a failed job; `offset` is the record at fault, if the error names it."""
    error = _unwrap(error)
    if isinstance(error, NotStarted):
        # No record is at fault: counts as no attempt, and never leads to a dead letter.
        return FailureAction("later", error.__cause__ or error, delay=error.wait)
    if isinstance(error, FATAL) or (isinstance(error, BaseExceptionGroup) and error.subgroup(FATAL) is not None):
        return FailureAction("fatal", error)
    offset = _named_offset(error, job)
    if offset is None:
        offset = job.failed_offset(error)
    if job.kind == "dead_letter":
        return FailureAction("retry", error, offset)
    if isinstance(error, RetryLater):
        return FailureAction("later", error, offset, error.delay)
    if is_output_topic_missing(error, route):
        # The record is not at fault: its partition waits for the topic, and no attempt is counted.
        return FailureAction("later", error, offset, OUTPUT_TOPIC_WAIT)
    if isinstance(error, Reject):
        return FailureAction("reject", error, offset)
    if isinstance(error, BatchResultError):
        return FailureAction("give_up_all", error)
    # An error that is no Exception (say, a cancellation that the handler itself has caused) says nothing about a
    # record.
    if isinstance(error, Exception) and not route.retry.is_retriable(error):
        return FailureAction("give_up", error, offset)
    return FailureAction("retry", error, offset)


def _unwrap(error: BaseException) -> BaseException:
    """Returns the error that the handler raised. A task group wraps the error of its only task, and a coroutine wraps a
    StopIteration, because a StopIteration would mean the coroutine's own end.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        return error.__cause__
    return error


def _named_offset(error: BaseException, job: Job) -> int | None:
    """Returns the offset that the error names, if it is one of this job's; else None."""
    if isinstance(error, DecodeError):
        topic, partition, offset = error.topic, error.partition, error.offset
    elif isinstance(error, Reject) and error.message is not None:
        topic, partition, offset = error.message.topic, error.message.partition, error.message.offset
    else:
        return None
    messages = job.messages
    if messages is None or not len(messages) or (topic, partition) != (job.topic, job.partition):
        return None
    return offset if messages.first_offset <= offset <= messages.last_offset else None


class PendingFailure(NamedTuple):
    """Failure of a job that waits for its produced records."""

    action: FailureAction
    hook: str


class FailedJob(NamedTuple):
    """Job that was returned to the dispatcher as failed."""

    job: Job
    """Job, without its messages."""
    route: Route
    action: FailureAction
    hook: str
    """Hook that failed, or "commit"."""
    stopped_at: int | None
    """Offset of the record at which the handler itself raised; None: unknown, or the handler has returned."""
    decision: "_native.Decision | None"
    """Decision about the records; None: the job has none."""


_NO_GROUPS: Mapping[int, str] = {}


class Failures:
    """Returns failed jobs to the dispatcher, and logs what happens to their records."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        dispatcher: _native.Dispatcher,
        control: RunControl,
        monitor: Monitor | None = None,
        on_failed: Callable[[FailedJob], None] | None = None,
        groups: Mapping[int, str] = _NO_GROUPS,
    ) -> None:
        """`routes` and `groups` (the consumer groups' names) go by `Route.id`.

        `on_failed`: called for each job that was returned as failed.
        """
        self._groups = groups
        self._routes = routes
        self._dispatcher = dispatcher
        self._control = control
        self._monitor = monitor
        self._on_failed = on_failed
        # Failures of jobs that wait for their produced records, by `Job.id`.
        self._pending: dict[int, PendingFailure] = {}

    def fail(self, job: Job, error: BaseException) -> None:
        """Fails the job because of this error, at once or when its produced records are settled."""
        route = self._routes[job.route]
        pending = self._pending.pop(job.id, None) if job.returned else None
        if pending is not None and isinstance(error, AlreadyFailed):
            action, hook = pending
        else:
            # A record produced before the handler raised was not written: that is the first failure.
            if pending is not None:
                error.__context__ = pending.action.error
            action = classify(error, job, route)
            cause = _unwrap(error)
            hook = cause.hook if isinstance(cause, NotStarted) else job.kind
        place, attempt = FailurePlace.of(job), job.attempt  # before the job is returned, which drops its messages
        if action.kind != "fatal" and not job.returned:
            self._pending[job.id] = PendingFailure(action, hook)  # first: the job may return at once, in another thread
            if self._dispatcher.await_outputs(job):
                return
            del self._pending[job.id]
        if action.kind == "fatal":
            # First, because it stops the dispatcher, so that no other job begins.
            self._control.fail(action.error)
        decision: _native.Decision | None = self._dispatcher.fail(
            job,
            action.kind,
            class_name(action.error),
            error_text(action.error),
            offset=action.offset,
            delay=action.delay,
        )
        if job.kind not in ("consume", "dead_letter"):
            decision = None  # the job has no records
        if isinstance(not_started := _unwrap(error), NotStarted):
            attempt = not_started.failures
        elif decision is not None and decision.kind == "retry":
            # Attempts are counted for the first unmarked record; marks in between have reset the job's own count.
            attempt = max(1, decision.attempt - 1)
        if self._on_failed is not None:
            own = action if not job.returned else pending.action if pending is not None else None
            self._on_failed(FailedJob(job, route, action, hook, own.offset if own is not None else None, decision))
        report = report_failure(
            route,
            self._groups.get(route.id, ""),
            action,
            hook,
            place,
            attempt,
            decision,
            returned=job.returned,
        )
        log_and_emit(
            self._monitor,
            logger,
            report.level,
            report.event,
            TEXT,
            *report.args,
            fields=report.fields,
            error=action.error,
            traceback=report.traceback,
        )

    def return_cancelled(self, job: Job, error: BaseException) -> None:
        """Returns a job whose task was cancelled, because its lane ended or the stop's time was up. No failure."""
        self._dispatcher.fail(job, "retry", class_name(error), "cancelled")
