"""Tables for people: drawn by rich on a terminal, plain text elsewhere.

Only `Table.draw` imports rich, so that commands whose output is piped do not load it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from grete._cli.terminal.escapes import printable

if TYPE_CHECKING:
    import rich.table


class Quantity(str):
    """Number with a unit, as text; aligned like numbers."""

    __slots__ = ()


class Styled(str):
    """Text with a style of rich, like "red"; the style shows on terminals only."""

    __slots__ = ("style",)

    def __new__(cls, text: str, style: str) -> Self:
        """Makes the text. `style`: "" for none."""
        made = super().__new__(cls, text)
        made.style = style
        return made

    style: str


@dataclass(frozen=True, slots=True)
class Table:
    """Table of a command. A cell that is None shows as "-", a list as its items with commas between them."""

    headings: Sequence[str]
    rows: Sequence[Sequence[object]]

    def __str__(self) -> str:
        return format_table(self.headings, self.rows)

    def draw(self) -> "rich.table.Table":
        """Returns the table for rich. Cells that do not fit the terminal are folded, so nothing is cut off."""
        import rich.box
        import rich.table
        import rich.text

        drawn = rich.table.Table(box=rich.box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
        for heading, right in zip(self.headings, _number_columns(self.headings, self.rows), strict=True):
            drawn.add_column(rich.text.Text(printable(heading)), justify="right" if right else "left", overflow="fold")
        for row in self.rows:
            # As Text: rich must not read square brackets in names as markup.
            drawn.add_row(*(rich.text.Text(_text(value), getattr(value, "style", "")) for value in row))
        return drawn


def format_size(count: int | None) -> Quantity | None:
    """Formats bytes for people."""
    if count is None:
        return None
    if count < 1 << 20:
        return Quantity(f"{count / (1 << 10):.0f} KiB")
    if count < 10 << 30:
        return Quantity(f"{count / (1 << 20):,.0f} MiB")
    return Quantity(f"{count / (1 << 30):,.1f} GiB")


def format_duration(seconds: float | None) -> Quantity | None:
    """Formats seconds for people: "4ms", "12.5s", "3m12s", "2h05m", "3d04h"."""
    if seconds is None:
        return None
    if seconds < 0.9995:
        return Quantity(f"{seconds * 1000:.0f}ms")
    if seconds < 59.95:
        return Quantity(f"{seconds:.1f}s")
    whole = round(seconds)
    for unit, small, over, per in (("m", "s", 3600, 60), ("h", "m", 86400, 3600)):
        if whole < over:
            return Quantity(f"{whole // per}{unit}{whole % per // (per // 60):02d}{small}")
    return Quantity(f"{whole // 86400}d{whole % 86400 // 3600:02d}h")


def format_table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats one line per row with aligned columns: numbers to the right, the rest to the left; None shows as "-".

    Nothing is cut off, and control characters are escaped: a row is always one line.
    """
    body = list(rows)
    cells = [[_text(value) for value in row] for row in body]
    widths = [max([len(heading), *(len(row[at]) for row in cells)]) for at, heading in enumerate(headings)]
    right = _number_columns(headings, body)

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(texts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(headings), *(line(row) for row in cells)])


def _number_columns(headings: Sequence[str], rows: Sequence[Sequence[object]]) -> list[bool]:
    """Returns for each column whether it holds only numbers."""
    return [bool(rows) and all(row[at] is None or _is_number(row[at]) for row in rows) for at in range(len(headings))]


def _is_number(value: object) -> bool:
    return isinstance(value, Quantity) or (isinstance(value, int) and not isinstance(value, bool))


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return printable(",".join(map(str, value))) or "-"
    return printable(str(value))
