"""The lines that an agent reads: `name:value|type|#tag:value,tag:value`."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

from grete.instrumentation.metrics import Family, Histogram, dotted

UNSAFE = str.maketrans({"|": "_", ",": "_", "#": "_", "\n": "_", "\r": "_"})
_LONGEST_TAG = 200


def tag(key: str, value: object) -> str:
    """ "key:value" as an agent takes it."""
    return f"{key}:{value}".translate(UNSAFE)[:_LONGEST_TAG]


def line(name: str, value: str, kind: str, tags: Iterable[str]) -> bytes:
    """One line, without its end; c is a count, g a gauge, d a distribution, h a histogram."""
    told = ",".join(tags)
    return f"{name}:{value}|{kind}{f'|#{told}' if told else ''}".encode()


def number(value: float) -> str:
    """As short as it is exact enough: a millionth of it, whole numbers whole."""
    return str(value) if isinstance(value, int) else f"{value:.7g}" if abs(value) < 1e7 else f"{value:.3f}"


def packed(name: str, values: Sequence[float], kind: str, tags: Sequence[str], limit: int) -> Iterator[bytes]:
    """Lines of at most so many bytes with many values each: "name:0.1:0.2|d"."""
    room = limit - len(line(name, "", kind, tags))
    waiting: list[str] = []
    size = -1
    for value in values:
        text = number(value)
        if waiting and size + 1 + len(text) > room:
            yield line(name, ":".join(waiting), kind, tags)
            waiting, size = [], -1
        waiting.append(text)
        size += 1 + len(text)
    if waiting:
        yield line(name, ":".join(waiting), kind, tags)


Key = tuple[str, tuple[tuple[str, str], ...]]


class Told:
    """What was told of counters so far: agents want to know how many more there are, not how many in all."""

    def __init__(self) -> None:
        self._before: dict[Key, float] | None = None

    def begin(self) -> None:
        """A run begins: its counts begin with 0. Those of the process go on."""
        self._before = {
            key: value for key, value in (self._before or {}).items() if key[0].startswith("grete_process_")
        }

    def lines(self, families: Iterable[Family], prefix: str, tags: Sequence[str]) -> Iterator[bytes]:
        """Gauges as they are, and by how much counters have grown since the last call. Who has not heard the beginning
        takes the first numbers for it.
        """
        late, before = self._before is None, self._before or {}
        now: dict[Key, float] = {}
        for family in families:
            if family.name == "grete_info":
                continue  # a number that is always 1; the version of the service is another one
            for labels, value in family.samples:
                if isinstance(value, Histogram) or not math.isfinite(value):
                    continue
                told, kind = value, "g"
                if family.kind == "counter":
                    key = family.name, tuple(labels.items())
                    known, now[key] = before.get(key, 0), value
                    told, kind = value - known if value >= known else value, "c"
                    if late or not told:
                        continue
                yield line(prefix + dotted(family.name), number(told), kind, [*_tags(labels), *tags])
        self._before = now


def _tags(labels: Mapping[str, str]) -> list[str]:
    return [tag(label, value) for label, value in labels.items() if value]
