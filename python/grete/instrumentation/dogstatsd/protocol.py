"""Line protocol of DogStatsD: `name:value|type|#tag:value,tag:value`."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grete.instrumentation.metrics import Histogram, MetricFamily, dotted

UNSAFE = str.maketrans({"|": "_", ",": "_", "#": "_", "\n": "_", "\r": "_"})
_MAX_TAG_LENGTH = 200


def tag(key: str, value: object) -> str:
    """ "key:value" with characters that an agent accepts, truncated."""
    return f"{key}:{value}".translate(UNSAFE)[:_MAX_TAG_LENGTH]


def line(name: str, value: str, kind: str, tags: Iterable[str]) -> bytes:
    """Formats one line, without its end; kind c is a count, g a gauge, d a distribution, h a histogram."""
    joined_tags = ",".join(tags)
    return f"{name}:{value}|{kind}{f'|#{joined_tags}' if joined_tags else ''}".encode()


def format_number(value: float) -> str:
    """Formats a number with seven digits, or with three decimals from 1e7 on; integers in full."""
    return str(value) if isinstance(value, int) else f"{value:.7g}" if abs(value) < 1e7 else f"{value:.3f}"


def pack_values(name: str, values: Sequence[float], kind: str, tags: Sequence[str], limit: int) -> Iterator[bytes]:
    """Yields lines of at most `limit` bytes with many values each: "name:0.1:0.2|d"."""
    room = limit - len(line(name, "", kind, tags))
    waiting: list[str] = []
    size = -1
    for value in values:
        text = format_number(value)
        if waiting and size + 1 + len(text) > room:
            yield line(name, ":".join(waiting), kind, tags)
            waiting, size = [], -1
        waiting.append(text)
        size += 1 + len(text)
    if waiting:
        yield line(name, ":".join(waiting), kind, tags)


Key = tuple[str, tuple[tuple[str, str], ...]]


class CounterDeltas:
    """Last reported values of counters: an agent expects the increase, not the total."""

    def __init__(self) -> None:
        self._before: dict[Key, float] | None = None

    def begin_run(self) -> None:
        """Resets the counters of the App, which begin with 0 in each run. Counters of the process go on."""
        self._before = {
            key: value for key, value in (self._before or {}).items() if key[0].startswith("grete_process_")
        }

    def lines(self, families: Iterable[MetricFamily], prefix: str, tags: Sequence[str]) -> Iterator[bytes]:
        """Yields gauges as they are, and counters as their increase since the last call.

        A first call without `begin_run` only stores the values of counters.
        """
        is_first, before = self._before is None, self._before or {}
        now: dict[Key, float] = {}
        for family in families:
            if family.name == "grete_info":
                continue  # always 1; the tag `version` is the service's
            for labels, value in family.samples:
                if isinstance(value, Histogram) or not math.isfinite(value):
                    continue
                reported, kind = value, "g"
                if family.kind == "counter":
                    key = family.name, tuple(labels.items())
                    known, now[key] = before.get(key, 0), value
                    reported, kind = value - known if value >= known else value, "c"
                    if is_first or not reported:
                        continue
                yield line(prefix + dotted(family.name), format_number(reported), kind, [*_tags(labels), *tags])
        self._before = now


def _tags(labels: Mapping[str, str]) -> list[str]:
    return [tag(label, value) for label, value in labels.items() if value]
