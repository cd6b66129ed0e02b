"""Writes docs/events.md: `python -m tests.unit.event_page`."""

import logging
from collections.abc import Mapping
from pathlib import Path

from grete.instrumentation import events
from grete.instrumentation.described import Described

PAGE = Path(__file__).parents[2] / "docs" / "events.md"

HEAD = """# Events

What happens in Grete has a name, and is a log record on the logger `grete` (`grete.client` for your own clients), with
its name as `event` and its fields beside it; an `error` is the record's `exc_info`. Times are seconds, sizes bytes.
A field with a question mark may be missing.
"""

PARTS: Mapping[str, Mapping[str, Described]] = {
    "The App": events.APP,
    "Consumers": events.CONSUMER,
    "Groups and offsets": events.GROUP,
    "Brokers, topics, fetching": events.CLIENT,
    "Producers": events.PRODUCER,
    "The swarm": events.SWARM,
    "Listeners": events.MONITOR,
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
    return f"| `{name}` | {described.when} | {fields} | {levels} |"


if __name__ == "__main__":
    PAGE.write_text(page())
