"""Grete's own settings: which there are, how each is read, what is meant when it is given in the wrong place."""

import importlib.util
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from grete import units
from grete._suggest import did_you_mean
from grete.errors import ConfigError, NotBuiltError
from grete.retry import Retry

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One of Grete's own settings: how it is read, its default, what it is for. The parser raises ValueError."""

    parse: Callable[[Any], Any]
    default: object
    help: str


def count(value: object) -> int:
    """A whole number from 1 up; the environment gives it as a string."""
    if isinstance(value, str) and value.strip().isascii() and value.strip().isdigit():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"it is a whole number from 1 up, not {value!r}")
    return value


def _small_count(value: object) -> int:
    """A count that the core keeps in 32 bits."""
    number = count(value)
    if number >= 1 << 32:
        raise ValueError(f"{number} is more than the {(1 << 32) - 1} that are possible")
    return number


def _text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it is a non-empty string, not {value!r}")
    return value


def _yes_or_no(value: object) -> bool:
    if isinstance(value, str):
        known = {
            "true": True,
            "1": True,
            "yes": True,
            "on": True,
            "false": False,
            "0": False,
            "no": False,
            "off": False,
        }
        value = known.get(value.strip().lower(), value)
    if not isinstance(value, bool):
        raise ValueError(f"it is true or false, not {value!r}")
    return value


def _one_of(*names: str) -> Callable[[object], str]:
    """One of a few words; the nearest is suggested for all others."""
    listed = f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}".replace("'", '"')

    def parse(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        near = did_you_mean(value.strip().lower().replace("-", "_"), names) if isinstance(value, str) else ""
        raise ValueError(f"it is {listed}, not {value!r}{near}")

    return parse


def _level(value: object) -> str:
    level = _text(value).upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        raise ValueError(f"it is debug, info, warning, error or critical, not {value!r}")
    return level


def _loop(value: object) -> str:
    name = _one_of("auto", "asyncio", "uvloop")(value)
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError('uvloop is not installed: pip install "grete[uvloop]", or say "auto"')
    return name


def _positive_seconds(value: str | float) -> float:
    seconds = units.seconds(value)
    if seconds < 0.001:
        raise ValueError(f"it is at least 1ms, not {value!r}")
    return seconds


def _limit(value: str | float) -> float:
    """A duration that is watched, or "none"; infinite then."""
    if is_none(value):
        return math.inf
    try:
        return _positive_seconds(value)
    except ValueError as error:
        raise ValueError(f'{error}; "none" switches it off') from None


def _interval(value: str | float) -> float:
    """Like `_limit`, but not so short that it would be all that happens."""
    seconds = _limit(value)
    if seconds < 0.1:
        raise ValueError(f"it is at least 100ms, not {value!r}")
    return seconds


def is_none(value: object) -> bool:
    """Whether it says that something is switched off."""
    return isinstance(value, str) and value.strip().lower() == "none"


def address(value: object) -> tuple[str, int] | None:
    """Host and port to listen at; host "": all interfaces. None: nowhere."""
    if is_none(value):
        return None
    advice = 'it is a port or "HOST:PORT", like "8080", "127.0.0.1:8080" or "[::1]:8080", or "none"'
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError(f"{advice}, not {value!r}")
    host, _, port = str(value).strip().rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        raise ValueError(f"{advice}, not {value!r}: an IPv6 address goes into brackets")
    if not (port.isascii() and port.isdigit()):
        raise ValueError(f"{advice}, not {value!r}")
    if int(port) > 65535:
        raise ValueError(f"a port is a number up to 65535, or 0 for a free one, which the log tells; not {port}")
    return host, int(port)


def _bytes(value: str | int) -> int:
    size = units.size(value)
    if size < 1:
        raise ValueError(f"it is at least one byte, not {value!r}")
    return size


_RATE = re.compile(r"\s*([0-9]+)\s*/\s*(.*?)\s*")


def rate(value: object) -> tuple[int, float]:
    """Records per seconds of "100/s", "5000/min", "10/30s" or of a whole number, which is per second."""
    advice = 'it is records per time, like "100/s" or "5000/min", or a whole number per second'
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise ValueError(f"{advice}, not {value!r}")
    if isinstance(value, int):
        records, per = value, 1.0
    else:
        match = _RATE.fullmatch(value)
        if match is None:
            raise ValueError(f"{advice}, not {value!r}")
        records, unit = int(match[1]), match[2]
        per = _positive_seconds(unit if unit[:1].isdigit() else f"1{unit}")
    if not 1 <= records < 1 << 32:
        raise ValueError(f"{advice}; at least one record, not {value!r}")
    return records, per


def _priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise ValueError(
            f"it is a whole number, not {value!r}: with priority=5 a route is served as if it had waited 5 s longer"
        )
    return value


def _flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it is True or False, not {value!r}")
    return value


def _retry(value: object) -> Retry:
    if isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"it is a grete.Retry: write retry=grete.Retry(attempts={value})")
    raise ValueError(f'it is a grete.Retry, like grete.Retry(attempts=5, backoff="200ms..30s"), not {value!r}')


def topic_name(value: object) -> str:
    """A name that a topic of Kafka's could have."""
    if not isinstance(value, str):
        raise ValueError(f"a topic is a string, not {value!r}")
    legal = value.isascii() and all(c.isalnum() or c in "._-" for c in value) and value not in (".", "..")
    if not value or len(value) > 249 or not legal:
        raise ValueError(f"{value!r} is no topic name: 1 to 249 letters, digits, dots, underscores and hyphens")
    return value


def _number(value: object, what: str) -> int:
    """A node or a partition."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)  # as a key of a TOML table
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError(f"a {what} is a whole number from 0 up, not {value!r}")
    return value


def _numbers(value: object, what: str) -> tuple[int, ...]:
    """In order, each once."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"it is a list of {what}s, like [0, 2], not {value!r}")
    numbers = [_number(one, what) for one in value]
    if not numbers:
        raise ValueError(f"it is a list of {what}s, and an empty one would mean that nobody does it")
    twice = next((one for one in numbers if numbers.count(one) > 1), None)
    if twice is not None:
        raise ValueError(f"{what} {twice} is named twice")
    return tuple(sorted(numbers))


def _pinned_to(value: object) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"it is a list of nodes: write nodes=[{value}] for node {value} alone")
    return _numbers(value, "node")


def _partitions(value: object) -> tuple[int, ...] | Mapping[int, tuple[int, ...]]:
    """Partitions to read without the group's say: a list, or which by node."""
    if not isinstance(value, Mapping):
        return _numbers(value, "partition")
    if not value:
        raise ValueError("it says which node reads which partitions, like {0: [0, 1], 1: [2, 3]}, and names none")
    by_node: dict[int, tuple[int, ...]] = {}
    owner: dict[int, int] = {}
    for key, some in value.items():
        node = _number(key, "node")
        by_node[node] = _numbers(some, "partition")
        for partition in by_node[node]:
            if owner.setdefault(partition, node) != node:
                raise ValueError(
                    f"partition {partition} is given to node {owner[partition]} and to node {node}: its records would "
                    "be processed by both"
                )
    return by_node


def _node_topics(value: object) -> Mapping[int, tuple[str, ...]]:
    """Topics by node."""
    if not isinstance(value, Mapping) or not value:
        number = isinstance(value, int) or (isinstance(value, str) and value.strip().isdigit())
        more = f'; how many nodes there are is swarm={{"nodes": {value}}}, or GRETE_SWARM_NODES' if number else ""
        raise ValueError(f'it pins topics to nodes, like {{0: ["orders"], 1: ["clicks"]}}, not {value!r}{more}')
    by_node: dict[int, tuple[str, ...]] = {}
    for key, topics in value.items():
        if isinstance(topics, str) or not isinstance(topics, Iterable):
            raise ValueError(f'topics come in a list, like {{{key}: ["orders"]}}, not {topics!r}')
        by_node[_number(key, "node")] = tuple(topic_name(topic) for topic in topics)
    return by_node


def _anything(value: T) -> T:
    return value


# An App's settings. Those that are a route's, too, are the default of its routes.
SETTINGS: dict[str, Setting] = {
    "workers": Setting(count, 5, "threads that run handlers"),
    "group": Setting(
        _text, None, "consumer group of routes that name none; else kafka's group.id, else the App's name"
    ),
    "max_messages": Setting(count, 500, "messages that one call of consume gets at most"),
    "max_bytes": Setting(
        _bytes, "16MiB", "bytes of messages that one call of consume gets at most (one message always)"
    ),
    "max_wait": Setting(units.seconds, "0s", "how long to wait for max_messages before a call with fewer"),
    "stall_after": Setting(_limit, "30s", 'how long a call may take before the log names it with its stack; or "none"'),
    "handler_timeout": Setting(_limit, "none", 'how long a call may take before it counts as hung; or "none"'),
    "shutdown_timeout": Setting(units.seconds, "30s", "how long a stop may take before it is forced"),
    "queued_bytes": Setting(units.size, "64MiB", "memory for records that wait for a handler, per consumer group"),
    "statistics_interval": Setting(
        _interval, "10s", 'how often `statistics.emitted` comes while somebody listens; or "none"'
    ),
    "log_level": Setting(_level, "info", "how much `grete run` logs"),
    "leak_report": Setting(
        _yes_or_no, True, "whether the log names threads that outlive the consumer that started them"
    ),
    "loop": Setting(
        _loop, "auto", 'the event loop of async handlers: "asyncio", "uvloop", or "auto": uvloop if installed'
    ),
    "probes": Setting(address, "none", '[HOST:]PORT of /livez, /readyz and /metrics; or "none"'),
    "nodes": Setting(_node_topics, None, "which nodes of a swarm process which topics; all that are not named: any"),
}

# A route's settings. Where the default is None, the App's setting counts if there is one.
ROUTE_SETTINGS: dict[str, Setting] = {
    **{
        name: Setting(SETTINGS[name].parse, None, SETTINGS[name].help)
        for name in ("group", "max_messages", "max_bytes", "max_wait", "stall_after", "handler_timeout")
    },
    "concurrency": Setting(
        _one_of("partition", "key", "unordered"), "partition", "what keeps its order: a partition, a key, or nothing"
    ),
    "max_in_flight": Setting(_small_count, 4096, 'with "key" and "unordered": records of a partition in work at most'),
    "priority": Setting(_priority, 0, "a route is served as if it had waited this many seconds longer"),
    "payload": Setting(_anything, None, "what values are decoded to, and how"),
    "retry": Setting(_retry, Retry(), "what happens after a failure"),
    "dead_letter": Setting(topic_name, None, "the topic that takes records whose attempts are used up"),
    "offsets": Setting(_one_of("auto", "manual", "at_most_once"), "auto", "who marks records as processed, and when"),
    "max_unmarked": Setting(
        _small_count,
        100_000,
        'records without a mark (offsets="manual"), or since the first one not done ("key"), that pause a partition',
    ),
    "offset_map": Setting(_flag, False, "whether marks ahead of the committed offset are kept in its metadata"),
    "rate_limit": Setting(rate, None, "records per time, of the route in this process"),
    "delay": Setting(units.seconds, None, "records are processed when they are at least this old"),
    "expire": Setting(_positive_seconds, None, "records that are older are passed over, and counted"),
    "tick": Setting(_positive_seconds, None, "how often the consumer's tick method runs, with or without records"),
    "nodes": Setting(_pinned_to, None, "which nodes of a swarm run it; all if not said"),
    "partitions": Setting(_partitions, None, "partitions to read without the group's say: a list, or which by node"),
}

# Planned, and refused by name until they are there.
NOT_BUILT = ("transactional",)

# What people look for among the settings, and where it is.
_ELSEWHERE = {
    "attempts": "it belongs to the retry policy: retry=grete.Retry(attempts=...)",
    "backoff": 'it belongs to the retry policy: retry=grete.Retry(backoff="200ms..30s")',
    "jitter": "it belongs to the retry policy: retry=grete.Retry(jitter=...)",
    "retries": "say how often a handler runs in all: retry=grete.Retry(attempts=...)",
    "eof": "define a method eof on the consumer class: it runs when a partition has been read to its end",
    "topic": 'topics come first, without a name: @app.consumer("orders")',
    "topics": 'topics come first, without a name: @app.consumer("orders", "returns")',
    "group_id": "it is called group",
    "dlq": "it is called dead_letter",
}


def check_names(given: Mapping[str, object], known: Iterable[str], where: str) -> None:
    """Refuses names that do not exist, with the nearest that does or with the place where they belong."""
    known = list(known)
    for name, value in given.items():
        if name in known:
            continue
        if name in NOT_BUILT:
            if value is not None:
                raise NotBuiltError(f"{where}: {name}={value!r} is not built yet; for now leave it out", setting=name)
            continue
        raise ConfigError(f'{where} has no setting "{name}"{_cure(name, known)}', setting=name)


def _cure(name: str, known: list[str]) -> str:
    if name in _ELSEWHERE:
        return f": {_ELSEWHERE[name]}"
    if name in ROUTE_SETTINGS:
        return f": it is a setting of a route: @app.consumer(..., {name}=...)"
    if name in SETTINGS:
        return f": it is a setting of the App: grete.App(..., {name}=...)"
    from grete.swarm.settings import SWARM_SETTINGS  # which is made of this file's parsers

    if name in SWARM_SETTINGS:
        return f": it is a setting of the swarm: grete.App(..., swarm={{{name!r}: ...}})".replace("'", '"')
    hint = did_you_mean(name, [*known, *NOT_BUILT])
    if not hint and "." in name:
        return "; Kafka's settings go into kafka={...}"
    return hint
