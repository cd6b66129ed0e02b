"""What an exception means for the records of its job, and the log line that says what comes of it."""

import logging
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

from grete import _core
from grete._core import Job
from grete.errors import DeadLetterError, DecodeError, Reject, RetryLater, RevokedError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing.dead_letters import shortened
from grete.processing.hooks import FATAL, Postponed
from grete.routes import Route

logger = logging.getLogger("grete")

# Characters of an error's text that are kept for the dead letter's headers: it may hold a whole record.
_LONGEST = 16_384


class Control(Protocol):
    """What a worker can say to the thread that runs the App."""

    def fail(self, error: BaseException) -> None:
        """Stop everything, gracefully, because of this."""

    def ending(self, thread: threading.Thread) -> None:
        """The thread does nothing any more but return."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a failed job is given back with."""

    kind: Literal["retry", "give_up", "reject", "later", "fatal"]
    error: BaseException
    offset: int | None = None
    delay: float = 0.0


def judge(error: BaseException, job: Job, route: Route) -> Verdict:
    """Which way the records of a failed job go; `offset` is the record that has failed, where the error names it."""
    error = _told(error)
    if isinstance(error, Postponed):
        # No record's fault: nobody's attempt, and never a reason for a dead letter.
        return Verdict("later", error.__cause__ or error, delay=error.wait)
    if isinstance(error, FATAL) or (isinstance(error, BaseExceptionGroup) and error.subgroup(FATAL) is not None):
        return Verdict("fatal", error)
    offset = _named(error, job)
    if offset is None:
        offset = job.culprit(error)
    if job.kind == "dead_letter":
        return Verdict("retry", error, offset)
    if isinstance(error, RetryLater):
        return Verdict("later", error, offset, error.delay)
    if isinstance(error, Reject):
        return Verdict("reject", error, offset)
    # What is no Exception (a cancellation that the handler itself has caused, say) is no verdict on a record.
    if isinstance(error, Exception) and not route.retry.covers(error):
        return Verdict("give_up", error, offset)
    return Verdict("retry", error, offset)


def _told(error: BaseException) -> BaseException:
    """What the handler wanted to say: a task group wraps what its one task has raised, and a coroutine a StopIteration,
    because that means its own end.
    """
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    if isinstance(error, RuntimeError) and isinstance(error.__cause__, StopIteration):
        return error.__cause__
    return error


def _named(error: BaseException, job: Job) -> int | None:
    """The offset that the error names, if it is one of this job's."""
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


class Failures:
    """Gives failed jobs back, and says loudly what comes of it."""

    def __init__(
        self,
        routes: Mapping[int, Route],
        dispatcher: _core.Dispatcher,
        control: Control,
        monitor: Monitor | None = None,
    ) -> None:
        """`routes` go by `Route.id`."""
        self._routes = routes
        self._dispatcher = dispatcher
        self._control = control
        self._monitor = monitor

    def fail(self, job: Job, error: BaseException) -> None:
        """The job is over because of this."""
        route = self._routes[job.route]
        verdict = judge(error, job, route)
        place, fields = _place(job)  # before the job is given back, which lets go of its messages
        told = _told(error)
        hook = told.hook if isinstance(told, Postponed) else job.kind
        if verdict.kind == "fatal":
            # First: this stops the dispatcher, so that no other job is begun.
            self._control.fail(verdict.error)
        decision: _core.Decision | None = self._dispatcher.fail(
            job,
            verdict.kind,
            class_name(verdict.error),
            text_of(verdict.error),
            offset=verdict.offset,
            delay=verdict.delay,
        )
        fields |= {"handler": route.name, "hook": hook}
        if job.kind not in ("consume", "dead_letter"):
            decision = None  # it has no records that anything could be decided about
        if decision is not None:
            fields["decision"] = decision.kind
            if decision.kind == "retry":
                # Attempts are the first open record's: what was marked in between took the job's own count with it.
                fields["attempt"] = max(1, decision.attempt - 1)
        self._log(route, verdict, hook, place, describe(decision, verdict, route, hook), fields)

    def cancelled(self, job: Job, error: BaseException) -> None:
        """The job's task was cancelled because its lane is gone, or because the time of a stop was up: no failure."""
        self._dispatcher.fail(job, "retry", class_name(error), "cancelled")

    def _log(
        self,
        route: Route,
        verdict: Verdict,
        hook: str,
        place: str,
        what_next: str,
        fields: dict[str, object],
    ) -> None:
        error, event = verdict.error, "consumer.error"
        level, traceback = logging.ERROR, True
        if verdict.kind == "fatal":
            level = logging.CRITICAL
        elif isinstance(error, DeadLetterError):
            event, traceback = "consumer.dead_letter", False
        elif isinstance(error, RetryLater):
            level, event, traceback = logging.INFO, "consumer.retry", False
        elif isinstance(error, Reject):
            level, traceback = logging.WARNING, error.__cause__ is not None
        tell(
            self._monitor,
            logger,
            level,
            event,
            "%s failed (%s, %s, attempt %d): %s: %s; %s",
            route.name,
            hook,
            place,
            fields["attempt"],
            class_name(error),
            shortened(text_of(error), 2000),
            what_next,
            fields=fields,
            error=error,
            traceback=traceback,
        )


def describe(decision: "_core.Decision | None", verdict: Verdict, route: Route, hook: str) -> str:
    """What comes of it, for the log line."""
    if verdict.kind == "fatal":
        return "the App stops; what is not marked is processed again after its next start"
    if decision is None:
        return "tried again on a new instance with the next job" if hook == "initialize" else "going on"
    wait = f"{decision.wait:.1f} s"
    match decision.kind:
        case "later" if hook == "initialize":
            return f"tried again on a new instance in {wait}"
        case "later" if hook == "commit":
            return f"tried again in {wait}; until then no handler gets these records"
        case "later":
            return f"asked for: again in {wait}"
        case "halve":
            return f"run again in halves, to find the record that fails: {decision.rows} records first"
        case "dead_letter":
            return f"its record {decision.offset} goes to {route.dead_letter}"
        case "hold":
            return "nothing more of this partition is tried here; what is not marked is the next owner's"
        case "refused" if isinstance(verdict.error, RevokedError):
            return "the partition or its position has moved on; its records are another job's now"
        case "refused":
            return "that changes nothing: the partition or its position has moved on"
        case "skipped":
            return 'these records are lost, as offsets="at_most_once" without dead_letter says'
        case _:
            return _retried(decision, verdict, route, hook)


def _retried(decision: "_core.Decision", verdict: Verdict, route: Route, hook: str) -> str:
    text = f"retried in {decision.wait:.1f} s" if decision.wait else "retried at once"
    if hook == "dead_letter":
        return f"{text}; the record stays where it is until then, and its partition waits"
    if verdict.kind in ("reject", "give_up") and route.dead_letter is None:
        why = "a record was rejected" if verdict.kind == "reject" else "this error is not for a retry"
        return f"{text} (attempt {decision.attempt}): {why}, but the route has no dead_letter, and nothing is skipped"
    attempts = route.retry.attempts
    if attempts is None or (decision.attempt > attempts and route.dead_letter is not None):
        return f"{text} (attempt {decision.attempt})"
    if decision.attempt <= attempts:
        return f"{text} (attempt {decision.attempt} of {attempts})"
    return f"{text} (attempt {decision.attempt}: the {attempts} are over, but without dead_letter nothing is skipped)"


def class_name(error: BaseException) -> str:
    """With the module, unless it is a built-in."""
    kind = type(error)
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def text_of(error: BaseException) -> str:
    """The error's text. Whoever wrote its `__str__` may have erred, too."""
    try:
        return shortened(str(error), _LONGEST)
    except Exception as another:
        return f"<its text cannot be had: {type(another).__name__}>"


def _place(job: Job) -> tuple[str, dict[str, object]]:
    place = f"{job.topic}[{job.partition}]"
    fields: dict[str, object] = {"topic": job.topic, "partition": job.partition, "attempt": job.attempt}
    if job.slot:
        fields["slot"] = job.slot
    messages = job.messages
    if messages is not None and len(messages):
        first, last = messages.first_offset, messages.last_offset
        place += f" offset {first}" if first == last else f" offsets {first}..{last}"
        fields |= {"first_offset": first, "last_offset": last}
    return place, fields
