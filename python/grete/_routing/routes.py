"""Routes: which consumer reads which topics, with which settings."""

import logging
import math
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from grete import _native, payloads
from grete._config import topic_patterns
from grete._config.latency import check_max_wait
from grete._config.layers import Config
from grete._routing import function_consumers, signatures
from grete._routing.call_plan import CallPlan, compile_plan
from grete._routing.results import ResultTopic, check_batch_result, check_no_result, make_result_topic
from grete._routing.route_checks import check_combinations, check_settings, check_topics
from grete._routing.signatures import HandlerSignature
from grete.consumer import Consumer
from grete.errors import ConfigError
from grete.instrumentation.emit import log_and_emit
from grete.payloads import Decoder
from grete.payloads.annotations import type_name
from grete.payloads.json_types import check_match, output_type_of
from grete.retry import Retry
from grete.topic import Topic

if TYPE_CHECKING:
    from grete.app import App

logger = logging.getLogger("grete")

Handler = type[Consumer] | Callable[..., object]
Partitions = tuple[int, ...] | Mapping[int, tuple[int, ...]]

# Key slots per worker thread: enough that two busy keys seldom share one.
_SLOTS_PER_WORKER = 64

# Records that an asynchronous handler of a queue processes at once, unless max_in_flight says so.
_ASYNC_QUEUE = 100

# Parts into which the records that wait are split for an asynchronous handler of batches.
_ASYNC_SHARES = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Route:
    """One declaration: topics -> handler. Durations are seconds, sizes bytes. None: the App's setting counts, or none.

    Attributes:
        id: index among the App's routes.
        name: the handler's name in messages: "Orders.consume" or "charge".
        location: "file:line" of the declaration.
        style: "class", "messages", "message" or "payload".
        is_async: whether the handler runs on the event loop.
        eof, tick: whether the consumer class has the hook, and how often it runs.
        stall_after, handler_timeout: infinite when disabled.
        nodes: the nodes of a swarm that run it; None: all.
        partitions: read without a group assignment; a list, or a dict by node.
        assigned: the partitions that `partitions` gives to one process: (topic, partition).
        publish: topic of the handler's results; `result_topic`: how they are written.
        plan: call of a function that names more than one argument, or whose results are written; None: a plain call.
        app: the App that has the route; None in tests of routes.
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
    latency: float | None = None
    stall_after: float | None = None
    handler_timeout: float | None = None
    concurrency: str = "partition"
    exactly_once: bool | None = None
    max_in_flight: int = 4096
    max_concurrency: int | None = None
    priority: int = 0
    payload: Any = None
    retry: Retry = field(default_factory=Retry)
    dead_letter: str | None = None
    offsets: str = "auto"
    queue: bool = False
    max_unmarked: int = 100_000
    offset_map: bool = False
    rate_limit: tuple[int, float] | None = None
    delay: float | None = None
    max_age: float | None = None
    dedup: tuple[str, str] | None = None
    dedup_window: float = 600.0
    dedup_memory: int = 16 << 20
    tick: float | None = None
    nodes: tuple[int, ...] | None = None
    partitions: Partitions | None = None
    assigned: tuple[tuple[str, int], ...] | None = None
    publish: str | None = None
    result_topic: ResultTopic | None = field(default=None, repr=False, compare=False)
    plan: CallPlan | None = field(default=None, repr=False, compare=False)
    app: "App | None" = field(default=None, repr=False, compare=False)
    key_decoders: Mapping[str, Decoder] = field(default_factory=dict, repr=False, compare=False)
    _decoders: Mapping[str, Decoder] | None = field(default=None, repr=False, compare=False)
    # Types of results that were dropped, and logged.
    _dropped: set[type] = field(default_factory=set, repr=False, compare=False)

    def new_consumer(self) -> Consumer:
        """Makes an instance for one unit of work: a partition, or one of its slots."""
        if self.style == "class":
            consumer: Consumer = self.handler()  # type: ignore[assignment]
            return consumer
        return function_consumers.new_function_consumer(self)

    def warn_dropped(self, kind: type) -> None:
        """Logs, once for each type, that results of the handler go nowhere."""
        if kind in self._dropped:
            return
        self._dropped.add(kind)
        log_and_emit(
            None if self.app is None else self.app.monitor,
            logger,
            logging.WARNING,
            "consumer.dropped_result",
            '%s returned %s, which is dropped: its route has no publish="..."; say where results go, or return nothing',
            self.name,
            type_name(kind),
            fields={"handler": self.name, "type": type_name(kind)},
        )

    def is_exactly_once(self, config: Config) -> bool:
        """Returns whether what a job produces is committed with its offsets."""
        wanted: bool = config["exactly_once"] if self.exactly_once is None else self.exactly_once
        return wanted

    def decoders(self) -> Mapping[str, Decoder] | None:
        """Returns the decoders of values, by topic; None if values are not decoded."""
        return self._decoders

    @property
    def takes_batches(self) -> bool:
        """Whether the handler gets batches, and not one record after the other."""
        return self.style in ("class", "messages")

    def _units(self, workers: int) -> dict[str, int]:
        """Returns how a partition is split into units that run at the same time.

        Threads bound how many run, so a fixed number of slots is enough. On the event loop each key has a unit, and a
        record without a key that is handled alone has a job.
        """
        if self.concurrency == "partition":
            return {"key_slots": 0, "shares": 1}
        if self.is_async:
            return {"key_slots": 0, "shares": _ASYNC_SHARES if self.takes_batches else 0}
        return {"key_slots": _SLOTS_PER_WORKER * workers, "shares": workers}

    def queue_concurrency(self, workers: int) -> int:
        """Returns how many records of a queue this process handles at once."""
        calls = self.max_in_flight if self.is_async else workers * (self.max_messages or 1)
        return calls if self.max_concurrency is None else min(calls, self.max_concurrency * (self.max_messages or 1))

    def latency_budget(self, config: Config) -> float:
        """Returns how long the route's records may wait to be fetched together, in seconds."""
        budget: float = config["latency"] if self.latency is None else self.latency
        return budget

    def _max_wait(self, config: Config) -> float:
        """Returns the wait for a full batch, in seconds: 0.0 beside a budget of the route's own."""
        if self.latency:
            return 0.0
        wait: float = config["max_wait"] if self.max_wait is None else self.max_wait
        if self.latency is None:
            check_max_wait(config["latency"], wait)
        return wait

    def native_settings(self, config: Config) -> dict[str, Any]:
        """Returns the route's settings for the native part."""

        def own_or_app(name: str) -> Any:
            value = getattr(self, name)
            return config[name] if value is None else value

        def limit(name: str) -> float | None:
            value: float = own_or_app(name)
            return None if math.isinf(value) else value

        return {
            "id": self.id,
            "name": self.name,
            "topics": list(self.topics),
            "pool": "loop" if self.is_async else "threads",
            "concurrency": self.concurrency,
            **self._units(config["workers"]),
            "max_concurrency": self.max_concurrency,
            "max_messages": (self.max_messages or 1) if self.queue else own_or_app("max_messages"),
            "max_bytes": own_or_app("max_bytes"),
            "max_wait": self._max_wait(config),
            "max_in_flight": self.max_in_flight,
            "offsets": self.offsets,
            "queue": self.queue,
            "max_unmarked": self.max_unmarked,
            "offset_map": self.offset_map,
            "attempts": 1 if self.offsets == "at_most_once" else self.retry.attempts,
            "backoff": self.retry.backoff_bounds,
            "jitter": self.retry.jitter,
            "dead_letter": self.dead_letter is not None,
            "priority": self.priority,
            "rate_limit": self.rate_limit,
            "delay": self.delay,
            "max_age": self.max_age,
            "dedup": None if self.dedup is None else (*self.dedup, self.dedup_window, self.dedup_memory),
            "eof": self.eof,
            "tick": self.tick,
            "stall_after": limit("stall_after"),
            "handler_timeout": limit("handler_timeout"),
        }

    def to_native(self, config: Config) -> _native.Route:
        """Makes the native route."""
        return _native.Route(**self.native_settings(config))


def make_route(
    number: int,
    topics: tuple[object, ...],
    handler: Any,
    settings: Mapping[str, object],
    location: str = "",
    names: Mapping[str, object] | None = None,
    app: "App | None" = None,
) -> Route:
    """Makes a checked route. `names`: local names that annotations may use. ConfigError says what is wrong and what is
    allowed.
    """
    checked = check_topics(topics)
    declared = {} if app is None else dict(app.topics)
    declared |= {topic.name: topic for topic in topics if isinstance(topic, Topic)}
    has_payload = settings.get("payload") is not None or any(
        topic in declared and declared[topic].value is not None for topic in checked
    )
    app_class = None if app is None else type(app)
    shape = signatures.inspect_handler(handler, names or {}, app_class, has_payload=has_payload)
    where = f"consumer {shape.name.removesuffix('.consume')}"
    values = check_settings(settings, where)
    if values.get("queue"):
        values.setdefault("concurrency", "unordered")
        if shape.is_async:
            values.setdefault("max_in_flight", _ASYNC_QUEUE)
    publish = values.pop("publish", None)
    try:
        check_combinations(values, checked, shape)
        decoders = _decoders(values.get("payload"), shape, checked, declared)
        key_decoders = _key_decoders(shape, checked, declared)
        result_topic = _result_topic(publish, shape, declared)
        if values.get("partitions") is not None and any(map(topic_patterns.is_pattern, checked)):
            raise ConfigError(
                "partitions= names partitions of topics, and a pattern has none until a topic matches: name the topics",
                setting="partitions",
            )
        dead_letter = values.get("dead_letter")
        if dead_letter is not None and topic_patterns.is_among(dead_letter, filter(topic_patterns.is_pattern, checked)):
            raise ConfigError(
                f'dead_letter="{dead_letter}" matches a pattern that the route reads: a record that is given up would '
                "come back again and again; name another topic, or narrow the pattern",
                setting="dead_letter",
            )
        if result_topic is not None and topic_patterns.is_among(result_topic.topic, checked):
            raise ConfigError(
                f'publish="{result_topic.topic}" is a topic that the route reads: its results would come back to it '
                "again and again; name another topic",
                setting="publish",
            )
        plan = _plan(shape, result_topic)
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
        publish=None if result_topic is None else result_topic.topic,
        result_topic=result_topic,
        plan=plan,
        app=app,
        key_decoders=key_decoders,
        _decoders=decoders,
        **values,
    )


def _decoders(
    payload: Any, shape: HandlerSignature, topics: tuple[str, ...], declared: Mapping[str, Topic[Any, Any]]
) -> Mapping[str, Decoder] | None:
    """Returns the decoders of values by topic. A topic that is declared brings its type."""
    wanted = shape.payload_type
    found: dict[str, Decoder] = {}
    for topic in topics:
        own, source = payload, "payload="
        if own is None and topic in declared:
            own, source = declared[topic].value, f'topic "{topic}": value='
        if own is None and shape.style != "messages" and typing.get_origin(wanted) is list:
            inner = type_name(wanted)
            raise ConfigError(
                f"{inner} would mean that each value is a JSON list: for a batch of payloads take grete.Batch"
                f"[{inner.partition('[')[2]}; for values that are lists say payload={inner}",
                setting="payload",
            )
        if own is None and shape.style == "payload" and wanted is Any:
            raise ConfigError(
                f'the function takes the payload, and topic "{topic}" has no type: declare it with value=, or say '
                'payload="json" for all topics',
                setting="payload",
            )
        found |= payloads.by_topic(own, wanted, (topic,), source) or {}
    return found or None


def _key_decoders(
    shape: HandlerSignature, topics: tuple[str, ...], declared: Mapping[str, Topic[Any, Any]]
) -> dict[str, Decoder]:
    """Returns the decoders of keys by topic; a topic without one has bytes."""
    wanted = signatures.key_types(shape.arguments or ())
    if not wanted:
        return {}
    found: dict[str, Decoder] = {}
    for topic in topics:
        own = declared[topic].key if topic in declared else None
        types = [one for one in wanted if one is not None]
        for one in types:
            if own is not None:
                check_match(own, output_type_of(own), one, f'topic "{topic}": key=')
        spec = own if own is not None else next(iter(types), None)
        if spec is not None and spec is not bytes:
            found[topic] = payloads.decoder_of(spec, topic, "key")
    return found


def _result_topic(publish: Any, shape: HandlerSignature, declared: Mapping[str, Topic[Any, Any]]) -> ResultTopic | None:
    if publish is not None:
        is_generator = shape.call_kind in ("generator", "async_generator")
        if shape.style in ("class", "messages") and not is_generator:
            check_batch_result(publish, shape.returns, shape.name)
        return make_result_topic(publish, shape.returns, shape.name, declared)
    if shape.call_kind in ("generator", "async_generator"):
        raise ConfigError(
            f"{shape.name} has a yield in it, and its route publishes nothing: calling it would run none of its lines; "
            'leave the yield out, or say where its values go: publish="invoices"',
            setting="publish",
        )
    check_no_result(shape.returns, shape.name)
    return None


def _plan(shape: HandlerSignature, result_topic: ResultTopic | None) -> CallPlan | None:
    if shape.arguments is None or (result_topic is None and not shape.needs_plan):
        return None
    return compile_plan(
        shape.arguments, shape.call_kind, result_topic, is_batch=shape.style == "messages", is_async=shape.is_async
    )
