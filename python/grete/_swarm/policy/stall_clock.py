"""Clock of the supervisor that detects when the supervisor was paused."""

import math
from collections.abc import Callable

from grete._swarm.policy.limits import STALL_THRESHOLD


class StallClock:
    """Distinguishes a supervisor that slept from one that was paused: SIGSTOP, a frozen container, system suspend."""

    def __init__(self, report_delay: float) -> None:
        """`report_delay`: seconds after a pause for which reports may contain time of the pause."""
        self._report_delay = report_delay
        self.now = -math.inf
        self._stall, self._stall_reported_until = 0.0, -math.inf

    def update(self, now: float, deadline: Callable[[], float | None]) -> tuple[float, float]:
        """Returns the time, which never goes back, and the length of a pause that has just ended (0: no pause).

        `deadline`: until when the supervisor was allowed to sleep. It is called after long gaps only, not per report.
        """
        now, last = max(now, self.now), self.now
        # A missed deadline stays in the past until `on_deadline`, while missed reports are passed on. So both the time
        # since the last update and the deadline count.
        until = None if now - last <= STALL_THRESHOLD else deadline()
        self.now = now
        if until is None or now - until <= STALL_THRESHOLD:
            return now, 0.0
        self._stall, self._stall_reported_until = now - last, now + self._report_delay
        return now, self._stall

    @property
    def stalled_seconds(self) -> float:
        """Length in seconds of a recent pause that reports may still contain; 0: none."""
        return self._stall if self.now < self._stall_reported_until else 0.0
