"""The time, and whether it has run away from the supervisor."""

import math
from collections.abc import Callable

from grete.swarm.limits import LATE


class Lateness:
    """Tells a supervisor that merely slept from one that did not run: SIGSTOP, a frozen container, a machine asleep."""

    def __init__(self, patience: float) -> None:
        """`patience`: for how many seconds the reports after it may tell of that time."""
        self._patience = patience
        self.now = -math.inf
        self._gap, self._until = 0.0, -math.inf

    def at(self, now: float, deadline: Callable[[], float | None]) -> tuple[float, float]:
        """The time, which does not go back, and for how long nobody was listening: 0 but after such a gap.

        `deadline`: until when the supervisor could sleep. It is not asked for each of a hundred reports.
        """
        now, last = max(now, self.now), self.now
        # A deadline that has passed stays so until `due`, while what was missed meanwhile is told: hence both.
        until = None if now - last <= LATE else deadline()
        self.now = now
        if until is None or now - until <= LATE:
            return now, 0.0
        self._gap, self._until = now - last, now + self._patience
        return now, self._gap

    @property
    def away(self) -> float:
        """The seconds of a gap that reports may tell of now."""
        return self._gap if self.now < self._until else 0.0
