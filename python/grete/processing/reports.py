"""The events of jobs: what runs for which records, and how long it took. Nothing of this runs while nobody listens."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from grete._core import Event, Job, Messages
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor
from grete.routes import Route


class Told:
    """A block, and the events before and after it."""

    __slots__ = ("_after", "_before", "_begin", "_payload")

    def __init__(self, before: Event, after: Event, payload: dict[str, Any]) -> None:
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


class Reports:
    """For one run of an App."""

    def __init__(self, monitor: Monitor, routes: Mapping[int, Route], groups: Mapping[int, str]) -> None:
        """`routes` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = routes
        self._groups = groups
        self._consume = monitor.event("consumer.consume")
        self._consumed = monitor.event("consumer.consumed")
        self.initialized = monitor.event("consumer.initialized")
        self._hooks = {
            "revoked": monitor.event("consumer.revoked"),
            "shutdown": monitor.event("consumer.shutdown"),
            "tick": monitor.event("consumer.tick"),
            "eof": monitor.event("consumer.eof"),
        }

    def job(self, job: Job, messages: Messages) -> "Told":
        """Around `consume`."""
        payload = {
            **self._place(job),
            "attempt": job.attempt,
            "records": len(messages),
            "first_offset": messages.first_offset,
            "last_offset": messages.last_offset,
            "messages": messages,
        }
        return Told(self._consume, self._consumed, payload)

    def hook(self, job: Job) -> contextlib.AbstractContextManager[None]:
        """Around the hook of a lane's job."""
        kind = job.kind
        more = {"lost": job.lost} if kind == "revoked" else {}
        return self.around(self._hooks.get(kind), job, **more)

    @contextlib.contextmanager
    def around(self, event: Event | None, job: Job, **more: object) -> Iterator[None]:
        """Emits the event after the block, with what it has raised."""
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
            event.emit(**self._place(job), **more, time=monotonic() - begin, error=error)

    def _place(self, job: Job) -> dict[str, Any]:
        return {
            "job": job.id,
            "handler": self._routes[job.route].name,
            "topic": job.topic,
            "partition": job.partition,
            "slot": job.slot,
            "group": self._groups[job.route],
        }
