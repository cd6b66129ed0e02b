"""Parsers of the values of settings. They raise ValueError that says what is allowed."""

import importlib.util
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from grete import _units
from grete._config.suggest import did_you_mean
from grete.retry import Retry

T = TypeVar("T")

MAX_COUNT = (1 << 32) - 1
# Higher numbers are probably typing errors, and so many threads would overload the machine.
MAX_WORKERS = 10_000


@dataclass(frozen=True, slots=True)
class Setting:
    """One of Grete's own settings: parser, default, help text. The parser raises ValueError.

    `unit` of a number: "seconds" and "bytes" may also be written as text, like "30s" and "64MiB". "": a plain value.
    """

    parse: Callable[[Any], Any]
    default: object
    help: str
    unit: Literal["", "seconds", "bytes"] = ""


# Python refuses to parse thousands of digits, with advice that does not help here.
_DIGITS = re.compile(r"\s*[0-9]{1,1000}\s*")


def positive_int(value: object) -> int:
    """Parses a whole number from 1; the environment gives it as a string."""
    if isinstance(value, str) and _DIGITS.fullmatch(value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"it is a whole number from 1 up, not {value!r}")
    return value


def uint32_count(value: object) -> int:
    """Parses a count that the core keeps in 32 bits."""
    return _at_most(positive_int(value), MAX_COUNT)


def worker_count(value: object) -> int:
    """Parses a number of threads that a process can have."""
    return _at_most(positive_int(value), MAX_WORKERS)


def _at_most(number: int, most: int) -> int:
    if number > most:
        raise ValueError(f"{number} is more than the {most} that are possible")
    return number


def text(value: object) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"it is a non-empty string, not {value!r}")
    return value


def shared_secret(value: object) -> str:
    # The value is in no message.
    if not isinstance(value, str) or len(value) < 16:
        raise ValueError("it is a string of at least 16 characters: openssl rand -hex 32 prints one")
    return value


def boolean(value: object) -> bool:
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


def one_of(*names: str) -> Callable[[object], str]:
    """Returns a parser for one of a few words. Its error suggests the nearest word."""
    listed = f"{', '.join(map(repr, names[:-1]))} or {names[-1]!r}".replace("'", '"')

    def parse(value: object) -> str:
        if isinstance(value, str) and value in names:
            return value
        near = did_you_mean(value.strip().lower().replace("-", "_"), names) if isinstance(value, str) else ""
        raise ValueError(f"it is {listed}, not {value!r}{near}")

    return parse


_order = one_of("partition", "key", "unordered")


def concurrency(value: object) -> str:
    """Parses what keeps its order. Elsewhere `concurrency` is a number of threads."""
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(
            'it says what keeps its order: "partition", "key" or "unordered"; the number of handlers that run at once '
            f"is a setting of the App: grete.App(..., workers={value})"
        )
    return _order(value)


def log_level(value: object) -> str:
    level = text(value).upper()
    if level not in ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"):
        raise ValueError(f"it is debug, info, warning, error or critical, not {value!r}")
    return level


def event_loop(value: object) -> str:
    name = one_of("auto", "own", "host", "asyncio", "uvloop")(value)
    if name == "uvloop" and importlib.util.find_spec("uvloop") is None:
        raise ValueError('uvloop is not installed: pip install "grete[uvloop]", or say "auto"')
    return name


def positive_seconds(value: str | float) -> float:
    seconds = _units.seconds(value)
    if seconds < 0.001:
        raise ValueError(f"it is at least 1ms, not {value!r}")
    return seconds


def timeout(value: str | float) -> float:
    """Parses the duration of a limit, or "none", which is infinite."""
    if is_off(value):
        return math.inf
    try:
        return positive_seconds(value)
    except ValueError as error:
        raise ValueError(f'{error}; "none" switches it off') from None


def interval(value: str | float) -> float:
    """Parses the interval of a periodic task: at least 100 ms, so that the task does not use up the process. "none" is
    infinite.
    """
    seconds = timeout(value)
    if seconds < 0.1:
        raise ValueError(f"it is at least 100ms, not {value!r}")
    return seconds


def is_off(value: object) -> bool:
    """Returns whether a value is "none", which disables a setting."""
    return isinstance(value, str) and value.strip().lower() == "none"


def parse_address(value: object) -> tuple[str, int] | None:
    """Parses the host and port to listen at; host "": loopback; "*": all interfaces. None: disabled."""
    if is_off(value):
        return None
    advice = 'it is a port or "HOST:PORT", like "8080" (on loopback), "*:8080" (all interfaces) or "none"'
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
        raise ValueError(f"a port is a number up to 65535, or 0 for a free one, which is logged; not {port}")
    return host, int(port)


def byte_count(value: str | int) -> int:
    size = _units.size(value)
    if size < 1:
        raise ValueError(f"it is at least one byte, not {value!r}")
    return size


_RATE = re.compile(r"\s*([0-9]+)\s*/\s*(.*?)\s*")


def parse_rate(value: object) -> tuple[int, float]:
    """Parses a rate: "100/s", "5000/min", "10/30s" or a whole number per second. Returns (records, seconds)."""
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
        per = positive_seconds(unit if unit[:1].isdigit() else f"1{unit}")
    if not 1 <= records < 1 << 32:
        raise ValueError(f"{advice}; at least one record, not {value!r}")
    return records, per


def dedup(value: object) -> tuple[str, str]:
    """Parses what identifies a record. Returns "header", "key" or "field", and the name."""
    kind, colon, name = text(value).partition(":")
    if (kind == "key" and not colon) or (kind in ("header", "field") and name):
        return kind, name
    raise ValueError('it is "header:NAME", "key" or "field:NAME" (of a JSON object)')


def priority(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not -(1 << 31) <= value < 1 << 31:
        raise ValueError(
            f"it is a whole number, not {value!r}: with priority=5 a route is served as if it had waited 5 s longer"
        )
    return value


def flag(value: object) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"it is True or False, not {value!r}")
    return value


def retry(value: object) -> Retry:
    if isinstance(value, Retry):
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"it is a grete.Retry: write retry=grete.Retry(attempts={value})")
    raise ValueError(f'it is a grete.Retry, like grete.Retry(attempts=5, backoff="200ms..30s"), not {value!r}')


def topic_name(value: object) -> str:
    """Parses a topic name that Kafka allows."""
    if not isinstance(value, str):
        raise ValueError(f"a topic is a string, not {value!r}")
    legal = value.isascii() and all(c.isalnum() or c in "._-" for c in value) and value not in (".", "..")
    if not value or len(value) > 249 or not legal:
        raise ValueError(f"{value!r} is no topic name: 1 to 249 letters, digits, dots, underscores and hyphens")
    return value


def publish(value: Any) -> Any:
    """Parses a topic: its name, or a `grete.Topic`."""
    topic_name(getattr(value, "name", value))
    return value


def _number(value: object, what: str) -> int:
    """Parses the number of a node or a partition."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value)  # a key of a TOML table is text
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 1 << 31:
        raise ValueError(f"a {what} is a whole number from 0 up, not {value!r}")
    return value


def _numbers(value: object, what: str) -> tuple[int, ...]:
    """Parses a list of different numbers. Returns them in order."""
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise ValueError(f"it is a list of {what}s, like [0, 2], not {value!r}")
    numbers = [_number(one, what) for one in value]
    if not numbers:
        raise ValueError(f"it is a list of {what}s, and it is empty: name at least one")
    duplicate = next((one for one in numbers if numbers.count(one) > 1), None)
    if duplicate is not None:
        raise ValueError(f"{what} {duplicate} is named twice")
    return tuple(sorted(numbers))


def nodes(value: object) -> tuple[int, ...]:
    if isinstance(value, int) and not isinstance(value, bool):
        raise ValueError(f"it is a list of nodes: write nodes=[{value}] for node {value} alone")
    return _numbers(value, "node")


def partitions(value: object) -> tuple[int, ...] | Mapping[int, tuple[int, ...]]:
    """Parses partitions that are read without a group assignment: a list, or a dict by node."""
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


def node_topics(value: object) -> Mapping[int, tuple[str, ...]]:
    """Parses topics by node."""
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


def unchanged(value: T) -> T:
    return value
