"""Which consumer gets which topics, and what may be declared."""

import inspect
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from grete._core import Message, Messages
from grete.config import SETTINGS, check_names, parse, refuse_unbuilt
from grete.consumer import Consumer
from grete.errors import ConfigError, NotBuiltError

# What of Grete's settings a route may have of its own.
ROUTE_SETTINGS = ("group", "max_messages")

Handler = type[Consumer] | Callable[[Messages], object]


@dataclass(frozen=True, slots=True)
class Route:
    """One declaration: topics -> handler. None: the App's setting counts."""

    id: int
    topics: tuple[str, ...]
    handler: Handler
    group: str | None = None
    max_messages: int | None = None

    @property
    def name(self) -> str:
        """What the handler is called in messages: "Orders.consume" or "clicks"."""
        suffix = ".consume" if isinstance(self.handler, type) else ""
        return getattr(self.handler, "__qualname__", repr(self.handler)) + suffix

    def new_consumer(self) -> Consumer:
        """An instance for one partition."""
        if isinstance(self.handler, type):
            consumer: Consumer = self.handler()
            return consumer
        return FunctionConsumer(self.handler)


class FunctionConsumer(Consumer):
    """Wraps a function."""

    def __init__(self, function: Callable[[Messages], object]) -> None:
        self._function = function

    def consume(self) -> None:
        """Hands the messages over."""
        self._function(self.messages)


def make(number: int, topics: tuple[object, ...], handler: Any, settings: Mapping[str, object]) -> Route:
    """A checked route. ConfigError names what is wrong, NotBuiltError what is not there yet."""
    where = f"consumer {getattr(handler, '__qualname__', handler)}"
    names = check_topics(topics)
    check_settings(settings, where)
    if isinstance(handler, type):
        _check_class(handler, where)
    else:
        _check_function(handler, where)
    given = {name: value for name, value in settings.items() if name in SETTINGS and value is not None}
    values = {name: parse(name, value, where).value for name, value in given.items()}
    return Route(number, names, handler, **values)


def check_settings(settings: Mapping[str, object], where: str) -> None:
    """Refuses settings that a route does not have."""
    refuse_unbuilt(settings, where)
    for name in settings:
        if name in SETTINGS and name not in ROUTE_SETTINGS:
            raise ConfigError(f"{where}: {name} is a setting of the App, not of a route", setting=name)
    check_names(settings, ROUTE_SETTINGS, where)


def check_topics(topics: tuple[object, ...]) -> tuple[str, ...]:
    """Topic names that Kafka could have."""
    if not topics:
        raise ConfigError('a consumer needs a topic: @app.consumer("orders")', setting="topic")
    names: list[str] = []
    for topic in topics:
        if isinstance(topic, type) or callable(topic):
            raise ConfigError(
                'a consumer needs a topic: write @app.consumer("orders"), not @app.consumer', setting="topic"
            )
        if not isinstance(topic, str):
            raise ConfigError(f"a topic is a string, not {topic!r}", setting="topic")
        if topic.startswith("^"):
            raise NotBuiltError(f'topic patterns like "{topic}" are not built yet: name each topic', setting="topic")
        legal = topic.isascii() and all(c.isalnum() or c in "._-" for c in topic) and topic not in (".", "..")
        if not topic or len(topic) > 249 or not legal:
            raise ConfigError(
                f"{topic!r} is no topic name: 1 to 249 letters, digits, dots, underscores and hyphens", setting="topic"
            )
        if topic in names:
            raise ConfigError(f'topic "{topic}" is named twice', setting="topic")
        names.append(topic)
    return tuple(names)


def _check_class(handler: type, where: str) -> None:
    if not issubclass(handler, Consumer):
        raise ConfigError(f"{where}: a consumer class derives from grete.Consumer")
    if handler.consume is Consumer.consume:
        raise ConfigError(f"{where} has no consume method")
    for hook in ("initialize", "consume", "revoked", "shutdown"):
        _refuse_async(getattr(handler, hook), f"{where}.{hook}")
    for hook in ("eof", "tick"):
        if hasattr(handler, hook):
            raise NotBuiltError(f"{where}: the hook {hook} is not built yet", setting=hook)
    try:
        inspect.signature(handler).bind()
    except TypeError as error:
        raise ConfigError(f"{where}: instances are made without arguments, but __init__ says: {error}") from None


def _check_function(handler: Any, where: str) -> None:
    if not callable(handler):
        raise ConfigError(f"{where}: a consumer is a class or a function, not {handler!r}")
    _refuse_async(handler, where)
    try:
        signature = inspect.signature(handler)
        signature.bind(None)
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{where}: a function consumer takes one argument, the messages: {error}") from None
    first = next(iter(signature.parameters.values()))
    try:
        annotation = typing.get_type_hints(handler).get(first.name, Messages)
    except Exception as error:
        raise ConfigError(f"{where}: the annotation of {first.name} cannot be resolved: {error}") from error
    if annotation is Message:
        raise NotBuiltError(f"{where}: one call per grete.Message is not built yet; take grete.Messages and iterate")
    if annotation is not Messages and annotation not in (Any, object):
        raise NotBuiltError(f"{where}: payload types like {annotation!r} are not built yet; take grete.Messages")


def _refuse_async(function: object, where: str) -> None:
    if inspect.iscoroutinefunction(function) or inspect.isasyncgenfunction(function):
        raise NotBuiltError(f"{where}: async functions are not built yet; use a plain def")
