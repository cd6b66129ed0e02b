"""The swarm's settings: `[swarm]` in grete.toml, `App(swarm={...})`, `GRETE_SWARM_...`, `grete swarm --...`."""

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from grete import _units
from grete._config.parsers import Setting, boolean, is_off, parse_address, positive_int, uint32_count
from grete.retry import parse_backoff

# A larger number is rather a typing error, and would exhaust the machine.
_MAX_NODES = 1000
# Upper bound of the kernel's CPU sets.
_MAX_CPU = 99_999
# A bare interpreter with Grete has about 30 MiB.
_MIN_RSS = 16 << 20
# A node reports once a second, so the supervisor cannot learn anything sooner.
REPORT_INTERVAL = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class SwarmSettings:
    """Merged values of all configuration layers. Durations are seconds, sizes bytes; infinite: switched off.

    Attributes:
        nodes: number of processes.
        max_rss: resident memory above which a node is replaced; None: unlimited.
        restart_backoff: first and longest delay before a node that ended is forked again.
        control: path of the control socket; "auto": the default path; None: no socket.
        probes: host and port of the HTTP probes; host "": loopback, "*": all interfaces. None: no probes.
        cpus: "auto" (each node on one CPU), "none", or the CPUs to use.
        static_membership: whether nodes get a `group.instance.id` if no setting names one.
    """

    nodes: int
    max_rss: int | None = None
    gil_timeout: float = 30.0
    report_timeout: float = 15.0
    not_ready_timeout: float = 300.0
    restart_backoff: tuple[float, float] = (1.0, 30.0)
    ready_after: float = 10.0
    crash_loop_after: int = 5
    control: str | None = "auto"
    probes: tuple[str, int] | None = None
    cpus: str | tuple[int, ...] = "none"
    static_membership: bool = True

    @property
    def report_interval(self) -> float:
        """Seconds between two reports of a node."""
        return REPORT_INTERVAL


def _nodes(value: object) -> int:
    if isinstance(value, str) and value.strip().lower() == "auto":
        return len(os.sched_getaffinity(0))
    if isinstance(value, Mapping):
        raise ValueError('it is the number of nodes; to pin topics to nodes, use grete.App(..., nodes={0: ["orders"]})')
    number = positive_int(value)
    if number > _MAX_NODES:
        raise ValueError(f"{number} processes are more than a machine can run; the most is {_MAX_NODES}")
    return number


def _rss(value: Any) -> int | None:
    if is_off(value):
        return None
    size = _units.size(value)
    if size < _MIN_RSS:
        raise ValueError(
            f"{size} bytes is less than a Python process needs; it is the memory of one node, at least "
            f'{_MIN_RSS >> 20}MiB, like "500MiB"; "none" switches it off'
        )
    return size


def _at_least(least: float, why: str = "", *, never: bool = False) -> Any:
    def parse(value: Any) -> float:
        if never and is_off(value):
            return math.inf
        seconds = _units.seconds(value)
        if seconds < least:
            advice = '; "none" switches it off' if never else ""
            raise ValueError(f"it is at least {least:g}s{why}, not {value!r}{advice}")
        return seconds

    return parse


def _backoff(value: object) -> tuple[float, float]:
    return parse_backoff(value)


def _control(value: object) -> str | None:
    if is_off(value):
        return None
    path = os.fspath(value) if isinstance(value, os.PathLike) else value
    if not isinstance(path, str) or not path.strip() or "\0" in path:
        raise ValueError(f'it is the path of a socket, "auto" or "none", not {value!r}')
    # sun_path holds 108 bytes with the zero at its end.
    if len(os.fsencode(path)) > 107:
        raise ValueError(
            f"the path of a socket has at most 107 bytes, and this one {len(os.fsencode(path))}: name a shorter one"
        )
    return path


def _cpus(value: object) -> str | tuple[int, ...]:
    advice = 'it is "auto", "none" or a list of CPU numbers, like [0, 1] or "0-3"'
    if is_off(value):
        return "none"
    if isinstance(value, str):
        if value.strip().lower() == "auto":
            return "auto"
        numbers = _ranges(value, advice)
    elif isinstance(value, (list, tuple, set, frozenset, range)):
        numbers = list(value)
    else:
        raise ValueError(f"{advice}, not {value!r}")
    for number in numbers:
        if isinstance(number, bool) or not isinstance(number, int) or number < 0:
            raise ValueError(f"{advice}, not {value!r}")
        if number > _MAX_CPU:
            raise ValueError(f"CPU {number} is out of range: the most is {_MAX_CPU}")
    if not numbers:
        raise ValueError(f"{advice}, not an empty one")
    twice = next((number for number in numbers if numbers.count(number) > 1), None)
    if twice is not None:
        raise ValueError(f"CPU {twice} is named twice; where there are more nodes than CPUs, they share them anyway")
    return tuple(numbers)


def _ranges(text: str, advice: str) -> list[int]:
    """Parses a list like "0,2-4", the format of taskset and cgroups."""
    numbers: list[int] = []
    for part in text.split(","):
        first, dash, last = (word.strip() for word in part.partition("-"))
        ends = (first, last) if dash else (first, first)
        if not all(end.isascii() and end.isdigit() and len(end) < 6 for end in ends):
            raise ValueError(f"{advice}, not {text!r}")
        numbers += range(int(ends[0]), int(ends[1]) + 1)
    return numbers


SWARM_SETTINGS: dict[str, Setting] = {
    "nodes": Setting(_nodes, "auto", 'processes; "auto": one for each CPU that this process may use'),
    "max_rss": Setting(_rss, "none", 'resident memory beyond which a node is replaced; or "none"', unit="bytes"),
    "gil_timeout": Setting(
        _at_least(1, never=True), "30s", 'how long the GIL of a node may be held; or "none"', unit="seconds"
    ),
    "report_timeout": Setting(
        _at_least(2 * REPORT_INTERVAL, " (a node reports once a second)"),
        "15s",
        "how long a node may be silent",
        unit="seconds",
    ),
    "not_ready_timeout": Setting(
        _at_least(1, never=True),
        "300s",
        'how long a node may lack its partitions while others have theirs; or "none"',
        unit="seconds",
    ),
    "restart_backoff": Setting(
        _backoff, "1s..30s", "the first and the longest wait before a node is forked again", unit="seconds"
    ),
    "ready_after": Setting(
        _at_least(0.001),
        "10s",
        "a node that was ready for so long has recovered: the backoff starts again",
        unit="seconds",
    ),
    "crash_loop_after": Setting(uint32_count, 5, "ends in a row, each sooner than ready_after, that make a crash loop"),
    "control": Setting(_control, "auto", 'path of the socket for `grete ps`; "auto" or "none"'),
    "probes": Setting(
        parse_address, "none", '[HOST:]PORT of the probes (*:PORT: all interfaces); or "none"; else the App\'s'
    ),
    "static_membership": Setting(
        boolean, True, "whether nodes are static members of their groups: a restarted one has its partitions at once"
    ),
    "cpus": Setting(_cpus, "none", 'the CPUs of the nodes, one each: "auto", "none" or a list'),
}
