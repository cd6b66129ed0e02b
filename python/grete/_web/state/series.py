"""Time series in four resolutions, in bounded memory."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

COUNTERS = (
    "records",
    "jobs",
    "failures",
    "retries",
    "dead_letters",
    "duration",
    "cpu",
    "fetched_bytes",
    "produced_records",
)
"""Sums over the bucket. `duration` and `cpu` are milliseconds."""
GAUGES = ("lag", "oldest", "rss", "processes", "workers", "busy", "gil_wait")
"""Largest value in the bucket, over all processes together; `oldest`, `gil_wait`: the worst process, milliseconds."""
NAMES = (*COUNTERS, *GAUGES)
_GAUGES_FROM = len(COUNTERS)
_PLACES = {name: place for place, name in enumerate(NAMES)}

Row = list[float]
# Longest time in seconds over which counts are spread.
_MAX_SPREAD = 600.0


@dataclass(frozen=True, slots=True)
class Tier:
    """Resolution of a series. Both times are seconds."""

    step: int
    kept: int


TIERS = (Tier(5, 3_600), Tier(60, 86_400), Tier(1_800, 7 * 86_400), Tier(28_800, 90 * 86_400))
RANGES: Mapping[str, Tier] = {"1h": TIERS[0], "1d": TIERS[1], "7d": TIERS[2], "90d": TIERS[3]}
FINE, MINUTE = TIERS[0], TIERS[1]


class Series:
    """Buckets of all tiers by their start in seconds since 1970. None: nothing is known of that time."""

    def __init__(self) -> None:
        self._rows: dict[Tier, dict[int, Row]] = {tier: {} for tier in TIERS}

    def count(self, begin: float, end: float, counts: Mapping[str, float]) -> None:
        """Adds counts of the time from `begin` to `end`, to each bucket its share."""
        begin = max(min(begin, end), end - _MAX_SPREAD)
        for tier in TIERS:
            at = begin
            while True:
                until = min(end, (at // tier.step + 1) * tier.step)
                share = (until - at) / (end - begin) if end > begin else 1.0
                row = self._row(tier, at)
                for name, count in counts.items():
                    row[_PLACES[name]] += count * share
                if until >= end:
                    break
                at = until

    def measure(self, at: float, values: Mapping[str, float]) -> None:
        """Adds measurements at a time."""
        for tier in TIERS:
            row = self._row(tier, at)
            for name, value in values.items():
                row[_PLACES[name]] = max(row[_PLACES[name]], value)

    def window(self, tier: Tier, now: float) -> tuple[list[int], list[Row | None]]:
        """Returns the starts and the rows of the time that the tier keeps, up to `now`."""
        last = int(now // tier.step * tier.step)
        first = last - tier.kept + tier.step
        rows = self._rows[tier]
        starts = list(range(first, last + 1, tier.step))
        return starts, [rows.get(start) for start in starts]

    def row(self, tier: Tier, start: int) -> Row | None:
        """Returns a bucket; None: nothing is known of it."""
        return self._rows[tier].get(start)

    def restore(self, tier: Tier, start: int, row: Sequence[float]) -> None:
        """Sets a bucket that was kept. A row of an older version has fewer numbers."""
        self._rows[tier][start] = [*map(float, row[: len(NAMES)]), *[0.0] * (len(NAMES) - len(row))]

    def expire(self, now: float) -> list[tuple[Tier, int]]:
        """Removes what is too old. Returns the removed buckets."""
        gone = []
        for tier, rows in self._rows.items():
            limit = now - tier.kept - tier.step
            old = [start for start in rows if start < limit]
            for start in old:
                del rows[start]
            gone += [(tier, start) for start in old]
        return gone

    def __len__(self) -> int:
        return sum(map(len, self._rows.values()))

    def _row(self, tier: Tier, at: float) -> Row:
        start = int(at // tier.step * tier.step)
        row = self._rows[tier].get(start)
        if row is None:
            row = self._rows[tier][start] = [0.0] * len(NAMES)
        return row


def column(rows: Iterable[Row | None], name: str, tier: Tier) -> list[float | None]:
    """Returns one series for a chart: counters per second, gauges as they are."""
    place = _PLACES[name]
    divisor = tier.step if place < _GAUGES_FROM else 1
    return [None if row is None else row[place] / divisor for row in rows]
