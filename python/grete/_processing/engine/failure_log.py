"""Log line about a failed job: which record, which error, which attempt, and what happens next."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from grete._native import Job
from grete._plural import counted
from grete._routing.routes import Route
from grete.errors import DeadLetterError, DeliveryError, Reject, RetryLater, RevokedError, UnknownTopicError
from grete.instrumentation._logging.error_report import summarize

if TYPE_CHECKING:
    from grete import _native

# Log line: record, handler, attempt, error, consequence.
TEXT = "%s: %s failed%s: %s; %s"
# A wait of this many seconds or more ends on another day, maybe: the line has the date, too.
_WITH_DATE = 12 * 3600.0


@dataclass(frozen=True, slots=True)
class FailureAction:
    """Arguments with which a failed job is returned to the dispatcher."""

    kind: Literal["retry", "give_up", "give_up_all", "reject", "later", "fatal"]
    error: BaseException
    offset: int | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class FailurePlace:
    """Records of a failed job. Made before the job is returned, which drops its messages."""

    topic: str
    partition: int
    slot: int
    offsets: tuple[int, int] | None
    """First and last offset of the job's records; None: the job has none."""

    @classmethod
    def of(cls, job: Job) -> "FailurePlace":
        """Returns the place of a job."""
        messages = job.messages
        offsets = None if messages is None or not len(messages) else (messages.first_offset, messages.last_offset)
        return cls(job.topic, job.partition, job.slot, offsets)

    def name(self, offset: int | None) -> str:
        """Returns "orders[3]@6" for the record at `offset`; None: "orders[3]@5..6", because no record is known."""
        partition = f"{self.topic}[{self.partition}]"
        if self.offsets is None:
            return partition
        first, last = self.offsets
        if offset is None and first != last:
            return f"{partition}@{first}..{last}"
        return f"{partition}@{first if offset is None else offset}"

    def fields(self, offset: int | None) -> dict[str, object]:
        """Returns the fields of the event."""
        fields: dict[str, object] = {"topic": self.topic, "partition": self.partition}
        if self.slot:
            fields["slot"] = self.slot
        if self.offsets is not None:
            first, last = self.offsets
            fields |= {"first_offset": first, "last_offset": last}
            if offset is not None or first == last:
                fields["offset"] = first if offset is None else offset
        return fields


@dataclass(frozen=True, slots=True)
class FailureReport:
    """Log record and event of one failure."""

    level: int
    event: str
    args: tuple[str, ...]
    """Arguments of `TEXT`."""
    fields: Mapping[str, object]
    traceback: bool


def is_output_topic_missing(error: BaseException, route: Route) -> bool:
    """Returns whether the topic of `publish=` does not exist. A record may also name a partition that it does not have:
    that is the record's own fault.
    """
    return isinstance(error, UnknownTopicError) and error.topic == route.publish and error.partition is None


def report_failure(
    route: Route,
    group: str,
    action: FailureAction,
    hook: str,
    place: FailurePlace,
    attempt: int,
    decision: "_native.Decision | None",
    *,
    returned: bool,
    now: Callable[[], float] = time.time,
) -> FailureReport:
    """Returns what is logged and emitted. `attempt`: the failed one, from 1. `decision`: about the records; None: the
    job has none. `returned`: whether the handler had returned. `now`: seconds since 1970.
    """
    error = action.error
    fields: dict[str, object] = {
        **place.fields(action.offset),
        "attempt": attempt,
        "handler": route.name,
        "group": group,
        "hook": hook,
    }
    if decision is not None:
        fields["decision"] = decision.kind
        if decision.kind in ("retry", "later"):
            fields["not_before"] = now() + decision.wait
    outcome = _Outcome(route, action, hook, decision, fields.get("not_before")).text
    subject = _subject(route, hook)
    args = place.name(action.offset), subject, _attempt_of(route, hook, attempt), summarize(error), outcome
    event = "consumer.error"
    if isinstance(error, DeadLetterError) and action.kind != "fatal":
        event = "consumer.dead_letter"
    elif isinstance(error, RetryLater) and action.kind != "fatal":
        event = "consumer.retry"
    traceback = _has_traceback(route, action, attempt, decision, returned=returned)
    return FailureReport(_level(route, action, decision), event, args, fields, traceback)


def _subject(route: Route, hook: str) -> str:
    match hook:
        case "consume":
            return route.name
        case "commit":
            return f"the commit for {route.name}"
        case "dead_letter":
            return f"the dead letter of {route.name}"
    return f"{route.name.removesuffix('.consume')}.{hook}"


def _attempt_of(route: Route, hook: str, attempt: int) -> str:
    if hook not in ("consume", "initialize", "commit", "dead_letter"):
        return ""  # runs once
    attempts = route.retry.attempts
    if hook == "consume" and attempts is not None and attempt <= attempts:
        return f" (attempt {attempt} of {attempts})"
    return f" (attempt {attempt})"


def _has_attempts_left(route: Route, decision: "_native.Decision") -> bool:
    attempts = route.retry.attempts
    return attempts is None or decision.attempt <= attempts


def _level(route: Route, action: FailureAction, decision: "_native.Decision | None") -> int:
    """Returns WARNING while a next attempt takes care of the records, else ERROR."""
    if action.kind == "fatal":
        return logging.CRITICAL
    if isinstance(action.error, DeadLetterError):
        return logging.ERROR
    if isinstance(action.error, RetryLater):
        return logging.INFO
    if isinstance(action.error, Reject):
        return logging.WARNING
    if decision is None:
        return logging.ERROR
    match decision.kind:
        case "retry":
            waits = action.kind == "retry" and _has_attempts_left(route, decision)
            return logging.WARNING if waits else logging.ERROR
        case "bisect" | "later" | "refused":
            return logging.WARNING
    return logging.ERROR


def _has_traceback(
    route: Route, action: FailureAction, attempt: int, decision: "_native.Decision | None", *, returned: bool
) -> bool:
    """Returns whether the traceback is logged: with the first and with the last attempt of a record."""
    error = action.error
    if action.kind == "fatal":
        return True
    if isinstance(error, (DeadLetterError, RetryLater, RevokedError)) or is_output_topic_missing(error, route):
        return False
    if isinstance(error, Reject) and error.__cause__ is None:
        return False
    if isinstance(error, DeliveryError) and error.__context__ is None and returned:
        return False  # it contains no frame of the handler
    if decision is None or attempt == 1:
        return True
    if decision.kind == "retry":
        return attempt == route.retry.attempts
    return decision.kind in ("dead_letter", "halt", "skipped")


@dataclass(frozen=True, slots=True)
class _Outcome:
    """Consequence for the records, for the log line."""

    route: Route
    action: FailureAction
    hook: str
    decision: "_native.Decision | None"
    not_before: object

    @property
    def text(self) -> str:
        """Last part of the line."""
        decision, hook = self.decision, self.hook
        if self.action.kind == "fatal":
            return "the App stops; unmarked records will be processed again after its next start"
        if decision is None:
            return "a new instance tries again with the next job" if hook == "initialize" else "the App goes on"
        match decision.kind:
            case "later" if hook == "initialize":
                return f"a new instance tries again {self._when()}"
            case "later" if hook == "commit":
                return f"next attempt {self._when()}; until then no handler gets these records"
            case "later":
                return self._later()
            case "bisect":
                return (
                    f"next attempt in halves, to find the record that fails: {counted(decision.rows, 'record')} first"
                )
            case "dead_letter":
                return self._dead_letter(decision)
            case "halt":
                return "partition halted on this process; unmarked records will be processed by its next owner"
            case "refused" if isinstance(self.action.error, RevokedError):
                return "the partition was revoked or its position has changed; its records belong to another job now"
            case "refused":
                return "without effect: the partition was revoked or its position has changed"
            case "skipped":
                return 'these records are lost, as offsets="at_most_once" without dead_letter says'
        return self._retry(decision)

    def _dead_letter(self, decision: "_native.Decision") -> str:
        if self.action.kind == "give_up_all":
            return f"its unmarked records go to {self.route.dead_letter}"
        return f"record {decision.offset} goes to {self.route.dead_letter}"

    def _later(self) -> str:
        if is_output_topic_missing(self.action.error, self.route):
            return f"next attempt {self._when()}; until then its partition waits for the topic of publish="
        return f"next attempt {self._when()}, as requested"

    def _retry(self, decision: "_native.Decision") -> str:
        route = self.route
        attempts = route.retry.attempts
        if self.hook == "dead_letter":
            return f"next attempt {self._when()}; its partition waits until then"
        text = f"attempt {decision.attempt} {self._when()}"
        if self.action.kind in ("reject", "give_up", "give_up_all") and route.dead_letter is None:
            why = "a record was rejected" if self.action.kind == "reject" else "this error is not for a retry"
            return f"{text}: {why}, but the route has no dead_letter, and nothing is skipped"
        if not _has_attempts_left(route, decision) and route.dead_letter is None:
            failed = "the only attempt" if attempts == 1 else f"all {attempts} attempts"
            return f"{text}: {failed} failed, but without dead_letter nothing is skipped"
        return text

    def _when(self) -> str:
        """Returns "not before 14:03:07.120" in local time: a retry may also wait for a worker."""
        decision = self.decision
        if decision is None or not decision.wait or not isinstance(self.not_before, float):
            return "as soon as a worker is free"
        moment = datetime.fromtimestamp(self.not_before, UTC).astimezone()
        day = f"{moment:%Y-%m-%d} " if decision.wait >= _WITH_DATE else ""
        return f"not before {day}{moment:%H:%M:%S}.{moment.microsecond // 1000:03d}"
