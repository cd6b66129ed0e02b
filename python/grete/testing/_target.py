"""Route of the handler under test: of an App, or of a class or function alone."""

import dataclasses
import weakref
from collections.abc import Mapping
from typing import Any

from grete import _native
from grete._config import topic_patterns
from grete._config.layers import Config, Layer, resolve_config
from grete._config.suggest import did_you_mean
from grete._routing.routes import Route
from grete._routing.setting_types import RouteSettings
from grete.app import App
from grete.consumer import Consumer
from grete.errors import ConfigError, GreteError
from grete.topic import Topic, name_of

# Environment of a test: that of the machine does not count. No broker is asked, so an address need not be set.
_ENVIRONMENT = {"GRETE_KAFKA_BOOTSTRAP_SERVERS": "memory:9092"}
# Name of the App, and of the consumer group, of a handler without an App.
_NAME = "testing"


@dataclasses.dataclass(frozen=True, slots=True)
class Target:
    """Route under test, with what its App says about it."""

    app: App
    config: Config
    route: Route
    group: str
    native: _native.Route


@dataclasses.dataclass(slots=True)
class _Resolved:
    """Settings and targets of an App, resolved once: that takes longer than a whole run."""

    command_line: Layer
    config: Config
    route_count: int
    groups: Mapping[str, list[Route]]
    targets: dict[tuple[str, str | None], Target]


_resolved: "weakref.WeakKeyDictionary[App, _Resolved]" = weakref.WeakKeyDictionary()


def find_target(handler: Any, topic: str | Topic[Any, Any], settings: RouteSettings) -> Target:
    """Returns the route of `topic`. `handler`: an App, a consumer class or a function, the last two with settings of a
    route.

    Raises ConfigError if the App does not read the topic, GreteError if several of its groups do.
    """
    if not isinstance(topic, (str, Topic)):
        raise TypeError(f"a topic is a str or a grete.Topic, not {type(topic).__name__}: consume(app, topic, records)")
    if isinstance(handler, App):
        others = settings.keys() - {"group"}
        if others:
            raise TypeError(
                f"{', '.join(sorted(others))}: the routes of an App have their settings already; give settings only "
                "with a consumer class or a function"
            )
        return _of_app(handler, name_of(topic), settings.get("group"))
    if isinstance(handler, Consumer):
        raise TypeError(
            f"consume makes the instances of a consumer itself: give the class, {type(handler).__qualname__}, not an "
            "instance"
        )
    if not callable(handler):
        raise TypeError(f"consume takes an App, a consumer class or a function, not {type(handler).__name__}")
    return _of_app(_app_of(handler, topic, settings), name_of(topic), None)


# Apps of handlers without an App, the newest last: the declaration takes longer than a run.
_apps: dict[tuple[object, ...], App] = {}
_MAX_APPS = 256


def _app_of(handler: Any, topic: str | Topic[Any, Any], settings: RouteSettings) -> App:
    key = handler, topic, *settings.items()
    try:
        known = _apps.get(key)
    except TypeError:  # a list, a dict, or a handler without a hash
        return _declare(handler, topic, settings)
    if known is None:
        known = _apps[key] = _declare(handler, topic, settings)
        if len(_apps) > _MAX_APPS:
            del _apps[next(iter(_apps))]
    return known


def _declare(handler: Any, topic: str | Topic[Any, Any], settings: RouteSettings) -> App:
    app = App(_NAME)
    for value in (topic, *settings.values()):
        if isinstance(value, Topic):
            app.topics[value.name] = value
    app.consumer(topic, **settings)(handler)
    return app


def _of_app(app: App, topic: str, group: str | None) -> Target:
    resolved = _resolved.get(app)
    if resolved is None or resolved.command_line is not app._command_line:  # noqa: SLF001
        config = _default_config() if app.name == _NAME else _config_of(app)
        _resolved[app] = resolved = _Resolved(app._command_line, config, -1, {}, {})  # noqa: SLF001
    if resolved.route_count != len(app.routes):
        resolved.groups = app.groups(resolved.config)
        resolved.targets.clear()
        resolved.route_count = len(app.routes)
    found = resolved.targets.get((topic, group))
    if found is None:
        found = resolved.targets[topic, group] = _find(app, resolved, topic, group)
    return found


def _config_of(app: App) -> Config:
    return resolve_config(app._code_layer, app._command_line, environment=_ENVIRONMENT)  # noqa: SLF001


_default: Config | None = None


def _default_config() -> Config:
    global _default
    if _default is None:
        _default = resolve_config(Layer(), Layer(), environment=_ENVIRONMENT)
    return _default


def _find(app: App, resolved: _Resolved, topic: str, group: str | None) -> Target:
    if group is not None and group not in resolved.groups:
        raise ConfigError(
            f'App "{app.name}" has no group "{group}", only {", ".join(resolved.groups)}'
            f"{did_you_mean(group, resolved.groups)}",
            setting="group",
        )
    here = [
        (name, route)
        for name, routes in resolved.groups.items()
        if group in (None, name)
        for route in routes
        if topic_patterns.is_among(topic, route.topics)
    ]
    if not here:
        topics = sorted({name for routes in resolved.groups.values() for route in routes for name in route.topics})
        raise ConfigError(
            f'App "{app.name}" does not read "{topic}", only {", ".join(topics) or "nothing"}'
            f"{did_you_mean(topic, topics)}",
            setting="topic",
        )
    if len(here) > 1:
        raise GreteError(f'"{topic}" is read in the groups {", ".join(name for name, _ in here)}: name one with group=')
    name, route = here[0]
    # Without jitter, the waits of a run are those of the declaration.
    native = _native.Route(**(route.native_settings(resolved.config) | {"jitter": 0.0}))
    return Target(app, resolved.config, route, name, native)
