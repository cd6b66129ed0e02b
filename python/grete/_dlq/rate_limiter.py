"""Rate limiter for records."""

import time

# Seconds. With shorter waits there would be a wake-up for each record; records that are due are sent together.
_MIN_WAIT = 0.01
# Seconds. Unused capacity older than this is lost: no burst after a pause.
_MAX_CREDIT = 0.05


class RateLimiter:
    """Rate limiter that spreads records evenly over time."""

    def __init__(self, records: int, per: float) -> None:
        """Allows at most `records` in `per` seconds, spread evenly over them."""
        self._interval = per / records
        self._next = time.monotonic()

    def acquire(self) -> float:
        """Returns 0 if one record may be sent now, which is counted, or else the seconds to wait before the next
        call.
        """
        now = time.monotonic()
        if now < self._next:
            return max(self._next - now, _MIN_WAIT)
        self._next = max(self._next, now - _MAX_CREDIT) + self._interval
        return 0.0
