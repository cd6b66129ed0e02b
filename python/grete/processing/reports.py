"""The events of jobs: what runs for which records, and how long it took. Nothing of this runs while nobody listens."""

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from grete._core import Event, Job, Messages
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor
from grete.routes import Route

Begun = tuple[dict[str, Any], float]


class Reports:
    """For one run of an App. `jobs` is for those who ask before each job whether anybody listens."""

    def __init__(self, monitor: Monitor, routes: Mapping[int, Route]) -> None:
        """`routes` go by `Route.id`."""
        self._routes = routes
        self.jobs = monitor.jobs
        self._consume = monitor.event("consumer.consume")
        self._consumed = monitor.event("consumer.consumed")
        self.initialized = monitor.event("consumer.initialized")
        self._hooks = {
            "revoked": monitor.event("consumer.revoked"),
            "shutdown": monitor.event("consumer.shutdown"),
            "tick": monitor.event("consumer.tick"),
            "eof": monitor.event("consumer.eof"),
        }

    def begin(self, job: Job, messages: Messages) -> Begun:
        """`consume` is about to be called: for `end`."""
        payload = self._place(job) | {
            "attempt": job.attempt,
            "records": len(messages),
            "first_offset": messages.first_offset,
            "last_offset": messages.last_offset,
            "messages": messages,
        }
        if self._consume:
            self._consume.emit(**payload)
        return payload, monotonic()

    def end(self, begun: Begun, error: BaseException | None) -> None:
        """It has returned, or raised this."""
        payload, begin = begun
        if self._consumed:
            self._consumed.emit(**payload, time=monotonic() - begin, error=error)

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
        }
