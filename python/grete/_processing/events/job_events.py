"""Events of jobs, with their records and durations. This code runs only while a listener is subscribed."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from grete._native import EventChannel, Job, Messages
from grete._routing.routes import Route
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class EventScope:
    """Context manager that emits one event before a block and one after it."""

    __slots__ = ("_after", "_before", "_begin", "_payload")

    def __init__(self, before: EventChannel, after: EventChannel, payload: dict[str, Any]) -> None:
        self._before = before
        self._after = after
        self._payload = payload

    def __enter__(self) -> None:
        if self._before:
            self._before.emit(**self._payload)
        self._begin = monotonic()

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if self._after:
            self._after.emit(**self._payload, time=monotonic() - self._begin, error=error)


class JobEvents:
    """Events of the jobs of one run of an App."""

    def __init__(self, monitor: Monitor, routes: Mapping[int, Route], groups: Mapping[int, str]) -> None:
        """`routes` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = routes
        self._groups = groups
        self._started_channel = monitor.event("job.started")
        self._finished_channel = monitor.event("job.finished")
        self.initialized = monitor.event("consumer.initialized")
        self._hooks = {
            "revoked": monitor.event("consumer.revoked"),
            "shutdown": monitor.event("consumer.shutdown"),
            "tick": monitor.event("consumer.tick"),
            "eof": monitor.event("consumer.eof"),
        }

    def job_scope(self, job: Job, messages: Messages) -> "EventScope":
        """Returns the scope of `job.started` and `job.finished`, around `consume`."""
        payload = {
            **self._base_fields(job),
            "attempt": job.attempt,
            "records": len(messages),
            "first_offset": messages.first_offset,
            "last_offset": messages.last_offset,
            "messages": messages,
        }
        return EventScope(self._started_channel, self._finished_channel, payload)

    def hook_scope(self, job: Job) -> contextlib.AbstractContextManager[None]:
        """Returns the scope of a lane hook's event."""
        kind = job.kind
        more = {"lost": job.lost} if kind == "revoked" else {}
        return self.emit_after(self._hooks.get(kind), job, **more)

    @contextlib.contextmanager
    def emit_after(self, event: EventChannel | None, job: Job, **more: object) -> Iterator[None]:
        """Emits the event after the block, with the error that the block raised."""
        if not event:
            yield
            return
        error, begin = None, monotonic()
        try:
            yield
        except BaseException as raised:
            error = raised
            raise
        finally:
            event.emit(**self._base_fields(job), **more, time=monotonic() - begin, error=error)

    def _base_fields(self, job: Job) -> dict[str, Any]:
        return {
            "job": job.id,
            "handler": self._routes[job.route].name,
            "topic": job.topic,
            "partition": job.partition,
            "slot": job.slot,
            "group": self._groups[job.route],
        }
