"""Writes docs/events.md: `python -m tests.unit.event_page`."""

import logging
from collections.abc import Mapping
from pathlib import Path

from docsite import errors
from grete.instrumentation import events
from grete.instrumentation.event_spec import EventSpec

PAGE = Path(__file__).parents[2] / "docs" / "events.md"

HEAD = """# Events

Look up each event: when it occurs, and its fields.

Each event in Grete has a name. Your code listens to events through `app.monitor`:

```python
@app.monitor.subscribe("group.assigned")
def assigned(event: grete.instrumentation.Event) -> None:
    print(event.name, event.at, event["partitions"])


class Alarm:
    def on_consumer_dead_letter(self, event): ...  # `consumer.dead_letter`

    def on_listener_failed(self, event): ...


app.monitor.subscribe(Alarm())
```

- A listener gets one `Event`: `name`, `payload` (read-only; `event["topic"]` is short for it), `time` (seconds
  that it took, None where it takes none) and `at` (seconds since 1970, UTC). It is called in the thread where it
  happens, which waits for it: in a node of a swarm for what happens there, in the supervisor for the swarm's own
  events.
- `job.started` and `job.finished` are emitted in the context (`contextvars`) in which the handler runs: in its worker
  thread, or in its asyncio task. What a listener of `job.started` sets is set inside of the handler, and a listener of
  `job.finished` resets it. The same goes for `message.process` and `message.processed`.
- The error of a listener that raises is logged with its traceback and emitted as `listener.failed`; the other
  listeners and Grete go on. `KeyboardInterrupt`, `SystemExit` and what else is no `Exception` is raised where the
  event was emitted.
- An unknown name raises `grete.UnknownEventError`, which lists similar names.
- Listeners may be subscribed and unsubscribed at any time, even by a listener. An event that is just being emitted
  reaches the listeners that were subscribed when it began.
- Events of your own: `CHARGED = app.monitor.declare("shop.charged")`, then `if CHARGED: CHARGED.emit(amount=3)`,
  which costs a few nanoseconds without a listener, or `app.monitor.measure(CHARGED, charge, order)`, which emits
  `time` and `error` (what `charge` raised, or None).

Times are seconds, sizes bytes. A field with a question mark is not always there. An event with a level is a log
record, too, on the logger `grete` (`grete.client` for clients that you make), with its name as `event` and its fields
beside it; an `error` is the record's `exc_info`, or in its text.
"""

PARTS: Mapping[str, Mapping[str, EventSpec]] = {
    "The App": events.APP,
    "Consumers": events.CONSUMER,
    "Groups and offsets": events.GROUP,
    "Brokers, topics, fetching": events.CLIENT,
    "Producers": events.PRODUCER,
    "The swarm": events.SWARM,
    "Statistics and listeners": events.MONITOR,
}


def page() -> str:
    """Returns the text that the file must have."""
    return HEAD + "".join(f"\n## {title}\n\n{_table(part)}" for title, part in PARTS.items())


def _table(part: Mapping[str, EventSpec]) -> str:
    rows = [_row(name, described) for name, described in part.items()]
    return "\n".join(["| event | when | fields | logged |", "|---|---|---|---|", *rows]) + "\n"


def _row(name: str, described: EventSpec) -> str:
    fields = "<br>".join(
        f"`{field}{'?' if field in described.optional else ''}: {kind}`".replace("|", "\\|")
        for field, kind in described.types.items()
    )
    levels = ", ".join(logging.getLevelName(level).lower() for level in described.levels)
    for file, page_of_index in errors.PAGES.items():
        if name in page_of_index.entries:  # cause and cure
            levels = f"[{levels}](errors/{file}.md#{errors.anchor(name)})"
    logged = levels if described.emitted else f"{levels}; cannot be listened to"
    return f"| `{name}` | {described.description} | {fields} | {logged} |"


if __name__ == "__main__":
    PAGE.write_text(page())
