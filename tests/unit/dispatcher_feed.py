"""Jobs without a broker: a dispatcher, and lanes that are fed by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from grete import _native
from tests.unit.record_batches import Record, batch


class DispatcherFeed:
    """A dispatcher with one lane, "orders"[0], and one worker."""

    def __init__(
        self,
        *,
        decoder: Callable[[bytes], object] | None = None,
        events: Sequence[_native.EventChannel] = (),
        **route: Any,
    ) -> None:
        self.dispatcher = _native.Dispatcher(events=events)
        settings: dict[str, Any] = {"id": 0, "name": "Orders.consume", "topics": ["orders"], "backoff": (0.0, 0.0)}
        self.route = _native.Route(**settings | route)
        if decoder is not None:
            self.dispatcher.set_decoder(0, "orders", decoder)
        self.lane = self.new_lane(0)
        self.worker = _native.Worker("worker", self.dispatcher, 1)

    def new_lane(self, partition: int) -> _native._TestingLane:
        """Another partition, read from offset 0 on."""
        return _native._TestingLane(self.dispatcher, self.route, "orders", partition)

    def push(self, values: Sequence[bytes | None], first: int = 0) -> None:
        """Records with these values, offsets from `first` on."""
        self.lane.push(batch([Record(first + number, value) for number, value in enumerate(values)]))

    def next(self, done: _native.Job | None = None) -> _native.Job:
        """The next job, which has to be there."""
        job = self.dispatcher.next(self.worker, done)
        assert job is not None
        return job

    def fail(self, job: _native.Job, action: Any = "retry", offset: int | None = None) -> _native.Decision:
        """Gives the job back as failed."""
        return self.dispatcher.fail(job, action, "ValueError", "no", offset=offset)


def offsets(job: _native.Job) -> list[int]:
    """The offsets of its messages."""
    assert job.messages is not None
    return job.messages.offsets.tolist()


def values(count: int) -> Iterator[bytes]:
    """b"0", b"1", ..."""
    return (b"%d" % number for number in range(count))
