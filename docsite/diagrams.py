"""Writes the diagrams: `python -m docsite.diagrams` makes docs/diagrams/NAME.svg of docs/diagrams/NAME.txt.

A text begins with `title:`. A sequence names its `lanes:` and then has lines like `a -> b: text` and `note a: text`. A
graph has boxes, like `box name COLUMN ROW: text`, and arrows between them, like `name -> other: text`.
"""

import html
import re
import textwrap
from collections.abc import Iterator
from typing import NamedTuple

from docsite.outside import DOCS

FOLDER = DOCS / "diagrams"

_LANE_WIDTH = 190
_ROW_HEIGHT = 46
_BOX_WIDTH, _BOX_HEIGHT, _GAP_X, _GAP_Y = 190, 62, 90, 62
_MARGIN = 20
_TITLE_HEIGHT = 44
_WRAP = 25
# The picture is white in the dark theme, too: its colors have contrast on white.
_STYLE = (
    "text{font:13px system-ui,sans-serif;fill:#1b1f24}.title{font-weight:600;font-size:15px}"
    ".lane{font-weight:600}.box{fill:#eef1fb;stroke:#3f51b5}.note{fill:#fff8e1;stroke:#8a6d00}"
    ".line{stroke:#9aa0a6;stroke-dasharray:4 4}.arrow{stroke:#3f51b5;fill:none;stroke-width:1.5}"
    ".label{paint-order:stroke;stroke:#fff;stroke-width:4px}"
)


class Arrow(NamedTuple):
    """An arrow with its text."""

    source: str
    target: str
    text: str


def svg(text: str) -> str:
    """Returns the diagram of a text."""
    lines = [line for line in text.splitlines() if line.strip() and not line.startswith("#")]
    title = lines.pop(0).removeprefix("title: ")
    if lines[0].startswith("lanes: "):
        return _sequence(title, lines.pop(0).removeprefix("lanes: ").split(" | "), lines)
    return _graph(title, lines)


def _sequence(title: str, lanes: list[str], lines: list[str]) -> str:
    at = {lane: _MARGIN + _LANE_WIDTH // 2 + index * _LANE_WIDTH for index, lane in enumerate(lanes)}
    parts: list[str] = []
    y = _TITLE_HEIGHT + 60
    for line in lines:
        if line.startswith("note "):
            lane, _, words = line.removeprefix("note ").partition(": ")
            parts += _box(at[lane] - 84, y - 16, 168, 18 + 16 * len(_wrapped(words, 24)), words, "note", 24)
            y += _ROW_HEIGHT + 16 * (len(_wrapped(words, 24)) - 1)
            continue
        arrow = _arrow(line)
        left, right = at[arrow.source], at[arrow.target]
        width = max(18, abs(right - left) // 7 - 2) if left != right else 22
        wrapped = _wrapped(arrow.text, width)
        y += 16 * (len(wrapped) - 1)
        if left == right:
            parts += _label(left + 42, y - 8 * (len(wrapped) - 1), wrapped, "start")
            parts.append(_path(f"M{left},{y - 12} h32 v16 h-30"))
        else:
            parts += _label((left + right) // 2, y - 7 - 16 * (len(wrapped) - 1), wrapped, "middle")
            parts.append(_path(f"M{left},{y} H{right + (-3 if right > left else 3)}"))
        y += _ROW_HEIGHT
    heads = [one for lane in lanes for one in _box(at[lane] - 80, _TITLE_HEIGHT, 160, 30, lane, "box", _WRAP, "lane")]
    rails = [f'<line class="line" x1="{x}" x2="{x}" y1="{_TITLE_HEIGHT + 30}" y2="{y - 10}"/>' for x in at.values()]
    return _document(title, 2 * _MARGIN + _LANE_WIDTH * len(lanes), y + 6, [*rails, *heads, *parts])


def _graph(title: str, lines: list[str]) -> str:
    boxes: dict[str, tuple[float, float]] = {}
    parts: list[str] = []
    arrows: list[Arrow] = []
    for line in lines:
        if match := re.fullmatch(r"box (\S+) ([\d.]+) ([\d.]+): (.*)", line):
            x = _MARGIN + float(match[2]) * (_BOX_WIDTH + _GAP_X)
            y = _TITLE_HEIGHT + float(match[3]) * (_BOX_HEIGHT + _GAP_Y)
            boxes[match[1]] = x, y
            parts += _box(x, y, _BOX_WIDTH, _BOX_HEIGHT, match[4], "box", _WRAP)
        else:
            arrows.append(_arrow(line))
    for arrow in arrows:
        parts += _connection(boxes[arrow.source], boxes[arrow.target], arrow.text)
    right = max(x for x, _ in boxes.values()) + _BOX_WIDTH + _MARGIN
    bottom = max(y for _, y in boxes.values()) + _BOX_HEIGHT + _MARGIN
    return _document(title, right, bottom, parts)


def _connection(source: tuple[float, float], target: tuple[float, float], text: str) -> list[str]:
    """An arrow between the sides of two boxes that face each other."""
    (x1, y1), (x2, y2) = source, target
    dx, dy = x2 - x1, y2 - y1
    if abs(dx) > _BOX_WIDTH:
        begin = (x1 + (_BOX_WIDTH if dx > 0 else 0), y1 + _BOX_HEIGHT / 2)
        end = (x2 + (-3 if dx > 0 else _BOX_WIDTH + 3), y2 + _BOX_HEIGHT / 2)
        wrapped = _wrapped(text, 13)
        label = _label((begin[0] + end[0]) / 2, begin[1] - 8 - 15 * (len(wrapped) - 1), wrapped, "middle")
    else:
        begin = (x1 + _BOX_WIDTH / 2, y1 + (_BOX_HEIGHT if dy > 0 else 0))
        end = (x2 + _BOX_WIDTH / 2, y2 + (-3 if dy > 0 else _BOX_HEIGHT + 3))
        wrapped = _wrapped(text, 24)
        middle = (begin[1] + end[1]) / 2 + 4 - 8 * (len(wrapped) - 1)
        label = _label((begin[0] + end[0]) / 2, middle, wrapped, "middle")
    return [_path(f"M{_number(begin[0])},{_number(begin[1])} L{_number(end[0])},{_number(end[1])}"), *label]


def _arrow(line: str) -> Arrow:
    match = re.fullmatch(r"(.+?) -> ([^:]+):? ?(.*)", line)
    assert match is not None, line
    return Arrow(match[1], match[2], match[3])


def _wrapped(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, width, break_on_hyphens=False)


def _number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _label(x: float, y: float, lines: list[str], anchor: str) -> list[str]:
    return [
        f'<text class="label" x="{_number(x)}" y="{_number(y + 16 * index)}" text-anchor="{anchor}">'
        f"{html.escape(line)}</text>"
        for index, line in enumerate(lines)
    ]


def _box(
    x: float, y: float, width: float, height: float, text: str, kind: str, wrap: int, style: str = ""
) -> list[str]:
    lines = _wrapped(text, wrap)
    top = y + height / 2 + 4 - 8 * (len(lines) - 1)
    return [
        f'<rect class="{kind}" x="{_number(x)}" y="{_number(y)}" width="{width}" height="{height}" rx="5"/>',
        *(
            f'<text class="{style}" x="{_number(x + width / 2)}" y="{_number(top + 16 * index)}" text-anchor="middle">'
            f"{html.escape(line)}</text>"
            for index, line in enumerate(lines)
        ),
    ]


def _path(d: str) -> str:
    return f'<path class="arrow" marker-end="url(#head)" d="{d}"/>'


def _document(title: str, width: float, height: float, parts: list[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_number(width)} {_number(height)}" '
        f'width="{_number(width)}" height="{_number(height)}" role="img">'
    )
    marker = (
        '<defs><marker id="head" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="8" markerHeight="8" '
        'orient="auto-start-reverse"><path d="M0,0 L10,5 L0,10 z" fill="#3f51b5"/></marker></defs>'
    )
    background = f'<rect width="{_number(width)}" height="{_number(height)}" rx="6" fill="#fff"/>'
    shown = f'<text class="title" x="{_MARGIN}" y="27">{html.escape(title)}</text>'
    inside = [f"<title>{html.escape(title)}</title>", f"<style>{_STYLE}</style>", marker, background, shown, *parts]
    return "\n".join([head, *inside, "</svg>"]) + "\n"


def made() -> Iterator[tuple[str, str]]:
    """Returns name and text of each diagram."""
    for source in sorted(FOLDER.glob("*.txt")):
        yield f"{source.stem}.svg", svg(source.read_text())


def outdated() -> list[str]:
    """Returns the diagrams that are missing or not those of their texts."""
    return [name for name, text in made() if not (FOLDER / name).exists() or (FOLDER / name).read_text() != text]


if __name__ == "__main__":
    for name, text in made():
        (FOLDER / name).write_text(text)
