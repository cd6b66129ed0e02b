"""Grete, an App: `style=` names one of the handlers below; other settings are the route's.

The styles that are called for each record count as the peers do; those that get a batch count once for each.
"""

from __future__ import annotations

import os
from typing import Any

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.event import Event
from benchmarks.process.clients.record_clock import Tally, counting


def message(tally: Tally) -> Any:
    """Called with each record."""
    seen, mark = 0, tally.first

    def handle(message: grete.Message) -> None:
        nonlocal seen, mark
        seen += 1
        if seen == mark:
            mark = tally.reached(seen, message)

    return handle


def payload(tally: Tally) -> Any:
    """Called with each decoded value."""
    seen, mark = 0, tally.first

    def handle(event: Event) -> None:
        nonlocal seen, mark
        seen += 1
        if seen == mark:
            mark = tally.reached(seen, event)

    return handle


def rows(tally: Tally) -> Any:
    """A class that iterates, and calls a function for each record."""
    handle = counting(tally)

    class Rows(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                handle(message)

    return Rows


def payload_rows(tally: Tally) -> Any:
    """A class that iterates, and calls a function with each decoded value."""
    handle = counting(tally)

    class PayloadRows(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                handle(message.payload)

    return PayloadRows


def values(tally: Tally) -> Any:
    """A batch, as a list of values; a function is called with each."""
    handle = counting(tally)

    def consume(messages: grete.Messages) -> None:
        for value in messages.values():
            handle(value)

    return consume


def columns(tally: Tally) -> Any:
    """A batch, as Arrow columns: the lengths of all values are summed, and no record becomes an object."""
    from benchmarks.consume.clients.grete_columns import value_bytes

    def consume(messages: grete.Messages) -> None:
        size = value_bytes(messages)
        if not tally.done and tally.add(len(messages), size):
            tally.finish(messages)

    return consume


STYLES = {style.__name__: style for style in (message, payload, rows, payload_rows, values, columns)}
NUMBERS = frozenset({"max_messages", "workers"})


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings: dict[str, Any] = dict(arguments.settings)
    style = settings.pop("style")
    for name in NUMBERS & settings.keys():
        settings[name] = int(settings[name])
    if style == "payload_rows":
        settings["payload"] = Event
    workers = settings.pop("workers", 1)
    app = grete.App(f"bench-{os.getpid()}", kafka={"bootstrap.servers": arguments.bootstrap}, workers=workers)
    handler = STYLES[style](Tally(arguments.records, f"grete {grete.__version__}", app.stop))
    app.consumer(arguments.topic, **settings)(handler)
    app.run()


if __name__ == "__main__":
    main()
