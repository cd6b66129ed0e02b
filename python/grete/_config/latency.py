"""Latency budget: how long records may wait at the broker to be fetched together, as Kafka's fetch settings.

A broker answers a Fetch when `fetch.min.bytes` have gathered or `fetch.max.wait.ms` have passed. A large minimum thus
costs one Fetch per budget at a low rate, and delays no Fetch of a backlog.
"""

from collections.abc import Iterable, Mapping

from grete import _units
from grete.errors import ConfigError

MIN_SECONDS = 0.001  # the resolution of fetch.max.wait.ms
MAX_SECONDS = 10.0  # far below request.timeout.ms, after which a Fetch without a response is lost

# Bytes that end the wait early: what a busy partition gathers, and a backlog always has.
_MIN_BYTES = 1 << 20

# Limits of one response. A minimum above them would make each Fetch of a backlog wait for the whole budget.
_RESPONSE_LIMITS = ("max.partition.fetch.bytes", "fetch.message.max.bytes", "fetch.max.bytes")

_FETCH_SETTINGS = ("fetch.min.bytes", "fetch.max.wait.ms", "fetch.wait.max.ms")


def parse_latency(value: object) -> float:
    """Returns the seconds of a latency budget; 0.0: no wait beyond Kafka's defaults. Raises ValueError."""
    seconds = _units.seconds(value)  # type: ignore[arg-type]
    if seconds and not MIN_SECONDS <= seconds <= MAX_SECONDS:
        raise ValueError(f'a latency budget is 0, or from "1ms" to "{MAX_SECONDS:.0f}s", not {value!r}')
    return seconds


def fetch_settings(latency: float, kafka: Mapping[str, str]) -> dict[str, str]:
    """Returns the fetch settings of a budget in seconds; empty for 0.0.

    `kafka`: the explicit settings of the client. Raises ConfigError if one of them contradicts the budget.
    """
    if not latency:
        return {}
    for name in _FETCH_SETTINGS:
        if name in kafka:
            raise ConfigError(
                f"latency={latency:g}s and {name}={kafka[name]} both say how long a Fetch waits: leave one of them out",
                setting="latency",
            )
    limits = [int(kafka[name]) for name in _RESPONSE_LIMITS if kafka.get(name, "").isdecimal()]
    return {
        "fetch.min.bytes": str(min(_MIN_BYTES, *limits) if limits else _MIN_BYTES),
        "fetch.max.wait.ms": str(round(latency * 1000)),
    }


def check_max_wait(latency: float | None, max_wait: float | None) -> None:
    """Refuses a budget beside a `max_wait`, whose times would add up. Raises ConfigError."""
    if latency and max_wait:
        raise ConfigError(
            f"latency={latency:g}s and max_wait={max_wait:g}s would add up: leave max_wait out, for records that are "
            "fetched together also reach the handler together",
            setting="latency",
        )


def smallest(budgets: Iterable[float]) -> float:
    """Returns the budget of a client whose routes have these budgets; 0.0 when a route has none."""
    return min(budgets, default=0.0)
