"""Markdown tables that also read well in a terminal."""

from __future__ import annotations

from collections.abc import Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """A table with the first `left` columns aligned left, the others right."""
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]

    def line(cells: Sequence[str]) -> str:
        padded = (
            cell.ljust(width) if column < left else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        )
        return f"| {' | '.join(padded)} |"

    rule = ["-" * width if column < left else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
    return "\n".join([line(head), line(rule), *map(line, rows)])


def number(value: float) -> str:
    """Three significant digits or all whole ones: 12,345 123 12.3 1.23 0.0123"""
    if value >= 100:
        return f"{value:,.0f}"
    for digits, bound in ((1, 10), (2, 1), (3, 0.1)):
        if value >= bound:
            return f"{value:.{digits}f}"
    return f"{value:.4f}"
