"""Last minute of lag and throughput, and their sparklines."""

from collections import deque
from collections.abc import Hashable, Iterator, Sequence

from grete._web.state.fleet import Fleet

STEP = 3_000
"""Milliseconds between two samples."""
SAMPLES = 20

BLOCKS = "▁▂▃▄▅▆▇█"
PLAIN = "_.-:=+*#"
"""Characters of sparklines where the output has no blocks."""

Samples = deque[float | None]


class Trends:
    """Samples of all processes at equal distances. None: nothing is known of that time."""

    def __init__(self) -> None:
        self._samples: dict[Hashable, Samples] = {}
        self._last: int | None = None

    def advance(self, fleet: Fleet, now: int) -> None:
        """Takes the samples that are due at this time, in milliseconds. Called before a report of that time is
        added.
        """
        number = now // STEP
        if self._last is None:
            self._last = number
        begin = max(self._last, number - SAMPLES)
        for step in range(begin + 1, number + 1):
            self._sample(dict(_values(fleet, min(step * STEP, now))))
        self._last = max(self._last, number)

    def lag(self, app: str) -> Sequence[float | None]:
        """Returns the lag of an App, oldest first."""
        return self._of(("lag", app))

    def rate(self, app: str) -> Sequence[float | None]:
        """Returns the records per second of an App, oldest first."""
        return self._of(("rate", app))

    def lane(self, group: str, topic: str, partition: int) -> Sequence[float | None]:
        """Returns the lag of a partition in a group, oldest first."""
        return self._of((group, topic, partition))

    def _sample(self, values: dict[Hashable, float]) -> None:
        for key in values.keys() - self._samples.keys():
            self._samples[key] = deque([None] * SAMPLES, SAMPLES)
        for key, samples in list(self._samples.items()):
            samples.append(values.get(key))
            if all(one is None for one in samples):
                del self._samples[key]

    def _of(self, key: Hashable) -> Sequence[float | None]:
        return tuple(self._samples.get(key, ()))


def sparkline(values: Sequence[float | None], width: int, blocks: str = BLOCKS) -> str:
    """Draws the last `width` values from zero to their largest; unknown values are spaces."""
    shown = values[-width:]
    most = max((one for one in shown if one is not None), default=0.0)
    top = len(blocks) - 1
    cells = (
        " " if one is None else blocks[0] if most <= 0 else blocks[max(int(one > 0), round(one / most * top))]
        for one in shown
    )
    return "".join(cells).rjust(width)


def _values(fleet: Fleet, now: int) -> Iterator[tuple[Hashable, float]]:
    totals: dict[Hashable, float] = {}
    for process in fleet.alive(now):
        app = process.facts.app
        totals["lag", app] = totals.get(("lag", app), 0.0) + (process.report.lag or 0)
        totals["rate", app] = totals.get(("rate", app), 0.0) + process.rate
        for lane in process.report.lanes:
            if lane.lag is not None:
                yield (lane.group, lane.topic, lane.partition), float(lane.lag)
    yield from totals.items()
