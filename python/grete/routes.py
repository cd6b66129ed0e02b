"""Which consumer gets which topics, and with what settings."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grete import _core, functions, handlers, payloads
from grete.config import Config
from grete.consumer import Consumer
from grete.errors import ConfigError, NotBuiltError
from grete.handlers import Shape
from grete.payloads import Decoder
from grete.retry import Retry
from grete.settings import ROUTE_SETTINGS, check_names, topic_name

Handler = type[Consumer] | Callable[..., object]
Partitions = tuple[int, ...] | Mapping[int, tuple[int, ...]]

# Threads and keys meet in this many slots per worker: enough that two busy keys seldom share one.
_SLOTS_PER_WORKER = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One declaration: topics -> handler. Durations are seconds, sizes bytes. None: the App's setting counts, or none.

    Attributes:
        id: its place among the App's routes.
        name: what the handler is called in messages: "Orders.consume" or "charge".
        location: "file:line" of the declaration.
        style: "class", "messages", "message" or "payload".
        is_async: whether the handler runs on the event loop.
        eof, tick: whether the consumer class has the hook, and how often it runs.
        stall_after, handler_timeout: infinite when switched off.
        nodes: the nodes of a swarm that run it; None: all.
        partitions: read without the group's say; a list, or which by node.
        assigned: what comes of `partitions` for one process: (topic, partition).
    """

    id: int
    topics: tuple[str, ...]
    handler: Handler
    name: str
    style: str = "class"
    is_async: bool = False
    location: str = ""
    eof: bool = False
    group: str | None = None
    max_messages: int | None = None
    max_bytes: int | None = None
    max_wait: float | None = None
    stall_after: float | None = None
    handler_timeout: float | None = None
    concurrency: str = "partition"
    max_in_flight: int = 4096
    priority: int = 0
    payload: Any = None
    retry: Retry = field(default_factory=Retry)
    dead_letter: str | None = None
    offsets: str = "auto"
    max_unmarked: int = 100_000
    offset_map: bool = False
    rate_limit: tuple[int, float] | None = None
    delay: float | None = None
    expire: float | None = None
    tick: float | None = None
    nodes: tuple[int, ...] | None = None
    partitions: Partitions | None = None
    assigned: tuple[tuple[str, int], ...] | None = None
    _decoders: Mapping[str, Decoder] | None = field(default=None, repr=False, compare=False)

    def new_consumer(self) -> Consumer:
        """An instance for one unit of work: a partition, or one of its slots."""
        if self.style == "class":
            consumer: Consumer = self.handler()  # type: ignore[assignment]
            return consumer
        return functions.new(self.handler, self.style, self.is_async)

    def decoders(self) -> Mapping[str, Decoder] | None:
        """What makes payloads of values, by topic; None when nothing is to be decoded."""
        return self._decoders

    def keywords(self, config: Config) -> dict[str, Any]:
        """What the native part is to know of the route."""

        def own(name: str) -> Any:
            value = getattr(self, name)
            return config[name] if value is None else value

        def limit(name: str) -> float | None:
            value: float = own(name)
            return None if math.isinf(value) else value

        return {
            "id": self.id,
            "name": self.name,
            "topics": list(self.topics),
            "pool": "loop" if self.is_async else "threads",
            "concurrency": self.concurrency,
            "key_slots": 0 if self.concurrency == "partition" else _SLOTS_PER_WORKER * config["workers"],
            "max_messages": own("max_messages"),
            "max_bytes": own("max_bytes"),
            "max_wait": own("max_wait"),
            "max_in_flight": self.max_in_flight,
            "offsets": self.offsets,
            "max_unmarked": self.max_unmarked,
            "offset_map": self.offset_map,
            "attempts": 1 if self.offsets == "at_most_once" else self.retry.attempts,
            "backoff": self.retry.waits,
            "jitter": self.retry.jitter,
            "dead_letter": self.dead_letter is not None,
            "priority": self.priority,
            "rate_limit": self.rate_limit,
            "delay": self.delay,
            "expire": self.expire,
            "eof": self.eof,
            "tick": self.tick,
            "stall_after": limit("stall_after"),
            "handler_timeout": limit("handler_timeout"),
        }

    def core(self, config: Config) -> _core.Route:
        """The route as the native part knows it."""
        return _core.Route(**self.keywords(config))


def make(
    number: int,
    topics: tuple[object, ...],
    handler: Any,
    settings: Mapping[str, object],
    location: str = "",
    names: Mapping[str, object] | None = None,
) -> Route:
    """A checked route. `names`: what annotations may mean. ConfigError says what is wrong and what would do."""
    checked = check_topics(topics)
    shape = handlers.read(handler, names or {})
    where = f"consumer {shape.name.removesuffix('.consume')}"
    values = check_settings(settings, where)
    try:
        _check_together(values, checked, shape)
        decoders = payloads.by_topic(values.get("payload"), shape.wants, checked)
    except ConfigError as error:
        raise ConfigError(f"{where}: {error}", setting=error.setting) from error.__cause__
    return Route(
        id=number,
        topics=checked,
        handler=handler,
        name=shape.name,
        style=shape.style,
        is_async=shape.is_async,
        location=location,
        eof=shape.eof,
        _decoders=decoders,
        **values,
    )


def check_settings(settings: Mapping[str, object], where: str) -> dict[str, Any]:
    """The settings of a route that are given, parsed. None means: not given."""
    check_names(settings, ROUTE_SETTINGS, where)
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None or name not in ROUTE_SETTINGS:
            continue
        try:
            values[name] = ROUTE_SETTINGS[name].parse(value)
        except ValueError as error:
            raise ConfigError(f"{where}: {name}={value!r}: {error}", setting=name) from None
    return values


def check_topics(topics: tuple[object, ...]) -> tuple[str, ...]:
    """Topic names that Kafka could have."""
    if not topics:
        raise ConfigError('a consumer needs a topic: @app.consumer("orders")', setting="topic")
    names: list[str] = []
    for topic in topics:
        if isinstance(topic, (list, tuple, set)):
            raise ConfigError(f"topics come one by one: @app.consumer({', '.join(map(repr, topic))})", setting="topic")
        if isinstance(topic, type) or callable(topic):
            raise ConfigError(
                'a consumer needs a topic: write @app.consumer("orders"), not @app.consumer', setting="topic"
            )
        if isinstance(topic, str) and topic.startswith("^"):
            raise NotBuiltError(f'topic patterns like "{topic}" are not built yet: name each topic', setting="topic")
        try:
            name = topic_name(topic)
        except ValueError as error:
            raise ConfigError(str(error), setting="topic") from None
        if name in names:
            raise ConfigError(f'topic "{name}" is named twice', setting="topic")
        names.append(name)
    return tuple(names)


def check_beside(one: Route, other: Route, group: str | None) -> None:
    """Refuses two routes of a group that read the same topic, or come by their partitions in different ways."""
    first, second = (f"{route.name} ({route.location})" if route.location else route.name for route in (one, other))
    named = f'group "{group}"' if group else "the App's group"
    if (one.partitions is None) != (other.partitions is None):
        direct, shared = (second, first) if one.partitions is None else (first, second)
        raise ConfigError(
            f"{direct} says which partitions it reads, and {shared} has its partitions from {named}: one group cannot "
            "have both, for its members' offsets are their own; give one of them another group=",
            setting="partitions",
        )
    both = set(one.topics) & set(other.topics)
    if both:
        raise ConfigError(
            f'{first} and {second} both read "{min(both)}" in {named}: a group gives each record to one of them; '
            "give one of them another group=, or name the topic in one only",
            setting="topic",
        )


def _check_together(values: Mapping[str, Any], topics: tuple[str, ...], shape: Shape) -> None:
    """Refuses settings that are right alone and make no sense with each other, or with the handler."""
    _check_concurrency(values)
    _check_offsets(values, shape)
    _check_tick(values, shape)
    if "nodes" in values and isinstance(values.get("partitions"), Mapping):
        raise ConfigError(
            "partitions says which node reads what, and nodes says it again: leave nodes out", setting="nodes"
        )
    if "delay" in values and "expire" in values and values["expire"] <= values["delay"]:
        raise ConfigError(
            "expire is not longer than delay: each record would be too old before it is due", setting="expire"
        )
    if values.get("dead_letter") in topics:
        raise ConfigError(
            f'dead_letter="{values["dead_letter"]}" is a topic that the route reads: a record that fails would come '
            "back to it for ever; name another",
            setting="dead_letter",
        )
    if values.get("max_messages") == 1 and values.get("max_wait"):
        raise ConfigError(
            "max_wait waits for more messages, and max_messages=1 wants no more: leave one of them out",
            setting="max_wait",
        )


def _check_concurrency(values: Mapping[str, Any]) -> None:
    if values.get("concurrency", "partition") != "partition":
        return
    if "max_in_flight" in values:
        raise ConfigError(
            'max_in_flight counts for concurrency="key" or "unordered"; with "partition" one call is in work at a '
            "time, of max_messages",
            setting="max_in_flight",
        )
    if values.get("offset_map") and values.get("offsets") != "manual":
        raise ConfigError(
            'offset_map keeps marks that are ahead of a gap, and there are none: it is for concurrency="key" or '
            '"unordered", or for offsets="manual"',
            setting="offset_map",
        )


def _check_offsets(values: Mapping[str, Any], shape: Shape) -> None:
    offsets = values.get("offsets", "auto")
    if "max_unmarked" in values and offsets != "manual" and values.get("concurrency", "partition") == "partition":
        raise ConfigError(
            'max_unmarked counts for offsets="manual", and for concurrency="key" or "unordered": otherwise each call '
            "marks what it got, and nothing runs ahead of it",
            setting="max_unmarked",
        )
    if offsets == "manual" and shape.style != "class":
        raise ConfigError(
            'offsets="manual" needs a consumer class, which marks with self.mark(...): a function cannot',
            setting="offsets",
        )
    if offsets != "at_most_once":
        return
    if values.get("concurrency", "partition") != "partition":
        # The committed offset is one per partition: records that still wait for their key's turn would be behind it.
        raise ConfigError(
            f'offsets="at_most_once" commits what a call gets before it runs, and with '
            f'concurrency="{values["concurrency"]}" that would pass records which no call has got: leave concurrency '
            'out, or say offsets="auto" for at least once',
            setting="offsets",
        )
    if "retry" in values and values["retry"].attempts != 1:
        raise ConfigError(
            'offsets="at_most_once" commits before the handler runs, so there is one attempt only: leave retry out, or '
            'say offsets="auto" for at least once',
            setting="retry",
        )


def _check_tick(values: Mapping[str, Any], shape: Shape) -> None:
    if "tick" in values and shape.style != "class":
        raise ConfigError(
            "tick says how often the tick method of a consumer class runs: a function has none", setting="tick"
        )
    if "tick" in values and not shape.tick:
        raise ConfigError(
            "tick says how often the method tick runs, and there is none: define tick(self)", setting="tick"
        )
    if shape.tick and "tick" not in values:
        raise ConfigError('its tick method would never run: say how often, like tick="10s"', setting="tick")
