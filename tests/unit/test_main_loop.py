"""Log events of network threads, in the App's thread."""

import os
from collections.abc import Sequence
from typing import Any, NamedTuple

from grete._processing.main_loop import MainLoop


class Notice(NamedTuple):
    name: str
    time: float


class Source:
    """A client with log events, and a descriptor."""

    def __init__(self, *events: Notice) -> None:
        self.events = list(events)
        self.eventfd = os.eventfd(0)

    def event_fd(self) -> int:
        return self.eventfd

    fd = _event_fd = event_fd

    def wake(self) -> None:
        """Nothing waits."""

    def drain_log_events(self) -> list[Notice]:
        events, self.events = self.events, []
        return events

    _drain_log_events = drain_log_events


def test_log_events_of_consumers_and_producer_are_passed_on_in_the_order_of_time() -> None:
    passed: list[str] = []

    def handler(events: Sequence[Any]) -> None:
        passed.extend(event.name for event in events)

    dispatcher: Any = Source(Notice("a", 1.0), Notice("c", 3.0), Notice("d", 3.0))
    producer: Any = Source(Notice("b", 2.0), Notice("e", 4.0))
    stop, statistics = Source(), None
    with MainLoop(stop, dispatcher, handler, statistics) as loop:  # type: ignore[arg-type]
        loop.add_producer(producer)
        loop.drain_log_events()
        loop.drain_log_events()
    assert passed == ["a", "b", "c", "d", "e"]
    for source in (stop, dispatcher, producer):
        os.close(source.eventfd)
