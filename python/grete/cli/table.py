"""Rows under headings, for people."""

from collections.abc import Iterable, Sequence


def table(headings: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """One line a row, columns aligned: numbers to the right, the rest to the left; None shows as "-"."""
    body = list(rows)
    cells = [[_text(value) for value in row] for row in body]
    widths = [max([len(heading), *(len(row[at]) for row in cells)]) for at, heading in enumerate(headings)]
    right = [bool(body) and all(row[at] is None or _is_number(row[at]) for row in body) for at in range(len(headings))]

    def line(texts: Sequence[str]) -> str:
        padded = (
            text.rjust(width) if number else text.ljust(width)
            for text, width, number in zip(texts, widths, right, strict=True)
        )
        return "  ".join(padded).rstrip()

    return "\n".join([line(headings), *(line(row) for row in cells)])


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    return str(value)
