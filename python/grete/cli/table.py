"""Rows under headings, for people."""

from collections.abc import Iterable, Sequence


class Quantity(str):
    """A number with its unit, as text; aligned as numbers are."""

    __slots__ = ()


def size(count: int | None) -> Quantity | None:
    """Bytes as people read them."""
    if count is None:
        return None
    if count < 1 << 20:
        return Quantity(f"{count / (1 << 10):.0f} KiB")
    if count < 10 << 30:
        return Quantity(f"{count / (1 << 20):,.0f} MiB")
    return Quantity(f"{count / (1 << 30):,.1f} GiB")


def span(seconds: float | None) -> Quantity | None:
    """Seconds as people read them: "4ms", "12.5s", "3m12s", "2h05m", "3d04h"."""
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
    return isinstance(value, Quantity) or (isinstance(value, int) and not isinstance(value, bool))


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, (list, tuple)):
        return ",".join(map(str, value)) or "-"
    return str(value)
