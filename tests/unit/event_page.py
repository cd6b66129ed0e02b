"""Writes docs/events.md: `python -m tests.unit.event_page`."""

import logging
from collections.abc import Mapping
from pathlib import Path

from grete.instrumentation import events
from grete.instrumentation.described import Described

PAGE = Path(__file__).parents[2] / "docs" / "events.md"

HEAD = """# Events

What happens in Grete has a name. Code of yours hears of it through `app.monitor`:

```python
@app.monitor.subscribe("group.assigned")
def assigned(occurred: grete.instrumentation.Occurred) -> None:
    print(occurred.name, occurred.at, occurred["partitions"])


class Alarm:
    def on_consumer_dead_letter(self, occurred): ...  # `consumer.dead_letter`

    def on_error_occurred(self, occurred): ...


app.monitor.subscribe(Alarm())
```

- A listener gets one `Occurred`: `name`, `payload` (read-only; `occurred["topic"]` is short for it), `time` (seconds
  that it took, None where it takes none) and `at` (seconds since 1970, UTC). It is called in the thread where it
  happens, which waits for it: in a node of a swarm for what happens there, in the supervisor for the swarm's own
  events.
- `consumer.consume` and `consumer.consumed` are told in the very context (`contextvars`) in which the handler runs: in
  its worker thread, or in its asyncio task. What the first one sets is set inside of the handler, and the second one
  sets it back. The same goes for `message.process` and `message.processed`.
- A listener that raises is logged with its traceback and told as `error.occurred`; the other listeners and Grete go
  on. `KeyboardInterrupt`, `SystemExit` and what else is no `Exception` goes to where it happened.
- A name that is none raises `grete.UnknownEventError`, which says what is called nearly so.
- Listeners may subscribe and unsubscribe at any time, in a listener, too; what is being told just then is told to
  those who listened when it began.
- Events of your own: `CHARGED = app.monitor.declare("shop.charged")`, then `if CHARGED: CHARGED.emit(amount=3)`,
  which costs a few nanoseconds while nobody listens, or `app.monitor.measure(CHARGED, charge, order)`, which tells
  `time` and `error` (what `charge` raised, or None).

Times are seconds, sizes bytes. A field with a question mark is not always there. An event with a level is a log
record, too, on the logger `grete` (`grete.client` for clients that you make), with its name as `event` and its fields
beside it; an `error` is the record's `exc_info`, or in its text.
"""

PARTS: Mapping[str, Mapping[str, Described]] = {
    "The App": events.APP,
    "Consumers": events.CONSUMER,
    "Groups and offsets": events.GROUP,
    "Brokers, topics, fetching": events.CLIENT,
    "Producers": events.PRODUCER,
    "The swarm": events.SWARM,
    "Statistics and listeners": events.MONITOR,
}


def page() -> str:
    """What the file is to be."""
    return HEAD + "".join(f"\n## {title}\n\n{_table(part)}" for title, part in PARTS.items())


def _table(part: Mapping[str, Described]) -> str:
    rows = [_row(name, described) for name, described in part.items()]
    return "\n".join(["| event | when | fields | logged |", "|---|---|---|---|", *rows]) + "\n"


def _row(name: str, described: Described) -> str:
    fields = "<br>".join(
        f"`{field}{'?' if field in described.optional else ''}: {kind}`".replace("|", "\\|")
        for field, kind in described.types.items()
    )
    levels = ", ".join(logging.getLevelName(level).lower() for level in described.levels)
    logged = levels if described.emitted else f"{levels}; cannot be listened to"
    return f"| `{name}` | {described.when} | {fields} | {logged} |"


if __name__ == "__main__":
    PAGE.write_text(page())
