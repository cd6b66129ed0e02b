"""Targets, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .table import table

BOUNDS: dict[str, Callable[[float, float], bool]] = {
    "<=": lambda measured, limit: measured <= limit,
    "<": lambda measured, limit: measured < limit,
    ">=": lambda measured, limit: measured >= limit,
}


@dataclass(frozen=True)
class TargetResult:
    """One line of the list that every run prints."""

    text: str
    bound: str  # a key of BOUNDS
    limit: float
    measured: float | None

    @property
    def missed(self) -> bool:
        return self.measured is not None and not BOUNDS[self.bound](self.measured, self.limit)

    @property
    def word(self) -> str:
        return "not measured" if self.measured is None else "MISSED" if self.missed else "ok"


def target_table(results: Sequence[TargetResult]) -> str:
    """One line per target."""
    lines = [
        (
            result.text,
            f"{result.bound} {result.limit:g}",
            "" if result.measured is None else f"{result.measured:.2f}",
            result.word,
        )
        for result in results
    ]
    return table(("target", "wanted", "measured", "result"), lines)
