"""So many records per time."""

import time

# Seconds. Shorter waits would wake up for each record; what is due is sent together.
_TICK = 0.01
# What was not used for longer than this is lost: no burst after a pause.
_CREDIT = 0.05


class Pace:
    """Says when the next record may go."""

    def __init__(self, records: int, per: float) -> None:
        """At most `records` in `per` seconds, spread evenly over them."""
        self._interval = per / records
        self._next = time.monotonic()

    def take(self) -> float:
        """0: one record may go now, and is counted. Else: seconds to wait before asking again."""
        now = time.monotonic()
        if now < self._next:
            return max(self._next - now, _TICK)
        self._next = max(self._next, now - _CREDIT) + self._interval
        return 0.0
