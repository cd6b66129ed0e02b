"""Events of jobs, with their records and durations. This code runs only while a listener is subscribed."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from grete._native import EventChannel, Job, Messages
from grete._routing.routes import Route
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor


class JobEvents:
    """Events of the jobs of one run of an App."""

    def __init__(self, monitor: Monitor, routes: Mapping[int, Route], groups: Mapping[int, str]) -> None:
        """`routes` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = routes
        self._groups = groups
        self.started = monitor.event("job.started")
        self.finished = monitor.event("job.finished")
        self.initialized = monitor.event("consumer.initialized")
        self._hooks = {
            "revoked": monitor.event("consumer.revoked"),
            "shutdown": monitor.event("consumer.shutdown"),
            "tick": monitor.event("consumer.tick"),
            "eof": monitor.event("consumer.eof"),
        }

    def start_job(self, job: Job, messages: Messages) -> None:
        """Emits `job.started`."""
        if self.started:
            self.started.emit_deferred(self._job_fields, job, messages)

    def finish_job(self, job: Job, messages: Messages, begin: float, error: BaseException | None) -> None:
        """Emits `job.finished`, with the error that `consume` raised. `begin`: when it was called, by `monotonic()`."""
        if self.finished:
            self.finished.emit_timed(self.finished_fields, begin, job, messages, error)

    def _job_fields(self, job: Job, messages: Messages) -> dict[str, Any]:
        return {
            **self._base_fields(job),
            "attempt": job.attempt,
            "records": len(messages),
            "first_offset": messages.first_offset,
            "last_offset": messages.last_offset,
            "messages": messages,
        }

    def finished_fields(self, job: Job, messages: Messages, error: BaseException | None, time: float) -> dict[str, Any]:
        """Returns the fields of `job.finished`. `time`: seconds that the handler took."""
        return {**self._job_fields(job, messages), "time": time, "error": error}

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
