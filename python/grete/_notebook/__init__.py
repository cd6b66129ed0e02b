"""HTML of Apps and messages for notebooks (`_repr_html_`). Every text is escaped, because records are not trusted."""

from __future__ import annotations

import codecs
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from html import escape
from typing import TYPE_CHECKING, Any

from grete import _native
from grete._plural import plural

if TYPE_CHECKING:
    from grete._native import Message, Messages
    from grete._routing.routes import Route

_ROWS = 10
"""Messages that are shown: the first and the last ones."""
_CHARS = 120
"""Characters of a key or value that are shown."""


def messages(shown: Messages[Any]) -> str:
    """Returns the table of the first and last messages."""
    if len(shown) == 0:
        return f"<p>no messages{f' of {escape(shown.topic)}[{shown.partition}]' if shown.topic else ''}</p>"
    title = (
        f"{shown.topic}[{shown.partition}]: {len(shown):,} {plural(len(shown), 'message')}, offsets "
        f"{shown.first_offset:,} to {shown.last_offset:,}, high watermark {shown.high_watermark:,}"
    )
    half = _ROWS // 2
    if len(shown) <= _ROWS:
        rows = [_message_row(message) for message in shown]
    else:
        rows = [_message_row(message) for message in shown[:half]]
        rows.append(["...", "", "", ""])
        rows += [_message_row(message) for message in shown[-half:]]
    return _table(title, ["offset", "timestamp (UTC)", "key", "value"], rows)


def app(name: str, routes: Sequence[Route], group_of: dict[int, str], statistics: dict[str, Any] | None) -> str:
    """Returns the table of an App's routes. `group_of`: consumer group by the route's id. `statistics`: those of the
    running App; None: it does not run.
    """
    lag: dict[int, int] = {}
    lanes: dict[int, int] = {}
    for lane in statistics["lanes"] if statistics is not None else ():
        lanes[lane["route"]] = lanes.get(lane["route"], 0) + 1
        lag[lane["route"]] = lag.get(lane["route"], 0) + (lane["lag"] or 0)
    rows = []
    for route in routes:
        attempts = route.retry.attempts
        row = [
            ", ".join(route.topics),
            route.name,
            group_of.get(route.id, ""),
            route.concurrency,
            "no limit" if attempts is None else str(attempts),
            route.dead_letter or "",
        ]
        if statistics is not None:
            row += [f"{lanes.get(route.id, 0):,}", f"{lag.get(route.id, 0):,}"]
        rows.append(row)
    head = ["topics", "handler", "group", "concurrency", "attempts", "dead letters"]
    if statistics is not None:
        head += ["partitions here", "lag"]
    return _table(f"{name}: {'runs' if statistics is not None else 'does not run'}", head, rows)


def _message_row(message: Message) -> list[str]:
    return [f"{message.offset:,}", _time_text(message.timestamp), _bytes_text(message.key), _bytes_text(message.value)]


def _time_text(at: int) -> str:
    if at < 0:
        return ""
    try:
        return datetime.fromtimestamp(at / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    except (ValueError, OverflowError):  # beyond the year 9999: microseconds, say
        return f"{at:,} ms since 1970"


def _bytes_text(data: bytes | None) -> str:
    if data is None:
        return "None"
    # The longest UTF-8 character has four bytes, and the last one may be cut.
    start = data[: 4 * _CHARS]
    try:
        text = codecs.getincrementaldecoder("utf-8")().decode(start, len(start) == len(data))
    except UnicodeDecodeError:
        text = repr(start)
    is_whole = len(text) <= _CHARS and len(start) == len(data)
    return _native.one_line(text if is_whole else f"{text[:_CHARS]}... ({len(data):,} bytes)")


def _table(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    cells = "".join(f"<th>{escape(cell)}</th>" for cell in head)
    body = "".join(f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f"<table><caption>{escape(title)}</caption><thead><tr>{cells}</tr></thead><tbody>{body}</tbody></table>"
