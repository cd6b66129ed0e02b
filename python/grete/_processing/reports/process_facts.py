"""Facts of a process that do not change while it runs: identity, versions, settings and routes."""

import math
import os
import platform
import socket
import time
from collections.abc import Mapping, Sequence
from typing import Any

from grete import _native
from grete._config.layers import Config, SettingValue, mask
from grete._routing.routes import Route

VERSION = 1
_MAX_NAME = 120
_MAX_VALUE = 200


def facts(app: str, node: int | None) -> dict[str, Any]:
    """Returns what each report repeats. `node`: number of the swarm's node; None: no swarm."""
    host = _shortened(socket.gethostname())
    return {
        "id": f"{_shortened(app)}/{host}/{os.getpid()}-{os.urandom(3).hex()}",
        "app": _shortened(app),
        "node": node,
        "host": host,
        "pid": os.getpid(),
        "parent": os.getppid(),
        "started": int(time.time() * 1000),
        "grete": _native.__version__,
        "python": platform.python_version(),
    }


def settings(own: Mapping[str, Any], config: Config, groups: Mapping[str, Sequence[Route]]) -> dict[str, Any]:
    """Returns settings with their origins, and routes. Secrets are masked."""
    return {
        "v": VERSION,
        "process": dict(own),
        "settings": _values(config.settings),
        "kafka": _values(config.kafka),
        "routes": [_route(group, route) for group, routes in groups.items() for route in routes],
    }


def _values(values: Mapping[str, SettingValue]) -> list[tuple[str, str, str]]:
    return [(name, _text(mask(name, value.value)), value.origin[:_MAX_VALUE]) for name, value in values.items()]


def _route(group: str, route: Route) -> dict[str, Any]:
    return {
        "handler": route.name,
        "topics": list(route.topics),
        "group": group,
        "location": route.location[-_MAX_VALUE:],
        "concurrency": route.concurrency,
        "attempts": route.retry.attempts,
        "dead_letter": route.dead_letter,
        "publish": route.publish,
    }


def _text(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, float):
        return "none" if math.isinf(value) else f"{value:g}s"
    return str(value)[:_MAX_VALUE]


def _shortened(name: str) -> str:
    return _native.one_line(name)[:_MAX_NAME]
