"""Progress lines while a benchmark runs, and failures."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field


def say(text: str) -> None:
    """Progress; standard output is for the result."""
    print(text, file=sys.stderr, flush=True)


@dataclass(kw_only=True)
class Failures:
    """Parts that did not come to an end. The others go on."""

    failures: list[str] = field(default_factory=list)

    def failed(self, what: str, error: Exception) -> None:
        """Goes on without it."""
        self.failures.append(f"{what}: {error}")
        say(f"  FAILED {self.failures[-1]}")
