"""Lag of each partition over the last hour, in bounded memory."""

from array import array
from collections.abc import Mapping

STEP = 30
"""Seconds between two samples."""
SAMPLES = 120
_MAX_PARTITIONS = 20_000

Key = tuple[str, str, int]
"""(group, topic, partition)."""


class LagHistory:
    """Ring of samples for each partition of each group. -1: not known at that time."""

    def __init__(self) -> None:
        self._rings: dict[Key, array[int]] = {}
        self._last = 0

    def is_due(self, at: int) -> bool:
        """Returns whether it is time for the next sample."""
        return at // STEP > self._last

    def sample(self, at: int, lags: Mapping[Key, int]) -> None:
        """Adds the lags at a time in seconds, unless it is too early for the next sample."""
        number = at // STEP
        if number <= self._last:
            return
        steps = min(number - self._last, SAMPLES)
        for ring in self._rings.values():
            for back in range(steps):
                ring[(number - back) % SAMPLES] = -1
        for key, lag in lags.items():
            ring = self._rings.get(key) or array("q")
            if not ring:
                if len(self._rings) >= _MAX_PARTITIONS:
                    continue
                ring = self._rings[key] = array("q", [-1]) * SAMPLES
            ring[number % SAMPLES] = lag
        self._last = number
        if number % SAMPLES == 0:
            self._rings = {key: ring for key, ring in self._rings.items() if max(ring) >= 0}

    def times(self) -> list[int]:
        """Returns the times of the samples in seconds, oldest first."""
        return [(self._last - back) * STEP for back in range(SAMPLES - 1, -1, -1)]

    def values(self, key: Key) -> list[int | None]:
        """Returns the samples of a partition, oldest first; None: not known at that time."""
        ring = self._rings.get(key)
        if ring is None:
            return [None] * SAMPLES
        found = (ring[(self._last - back) % SAMPLES] for back in range(SAMPLES - 1, -1, -1))
        return [None if lag < 0 else lag for lag in found]
