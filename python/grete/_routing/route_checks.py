"""Checks of a route's settings: names and values, which of them contradict each other, and routes beside each other."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grete._config import topic_patterns
from grete._config.latency import check_max_wait
from grete._config.parsers import topic_name
from grete._config.registry import ROUTE_SETTINGS, check_names
from grete._routing.signatures import HandlerSignature
from grete.errors import ConfigError
from grete.topic import name_of

if TYPE_CHECKING:
    from grete._config.layers import Config
    from grete._routing.routes import Route


def check_settings(settings: Mapping[str, object], where: str) -> dict[str, Any]:
    """Parses the given settings of a route. None means: not given."""
    check_names(settings, ROUTE_SETTINGS, where)
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if value is None or name not in ROUTE_SETTINGS:
            continue
        try:
            values[name] = ROUTE_SETTINGS[name].parse(name_of(value) if name == "dead_letter" else value)
        except ValueError as error:
            raise ConfigError(f"{where}: {name}={value!r}: {error}", setting=name) from None
    return values


def check_topics(topics: tuple[object, ...]) -> tuple[str, ...]:
    """Checks that topic names are valid for Kafka, patterns are regular expressions, and each is given once."""
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
        if isinstance(topic, str) and topic_patterns.is_pattern(topic):
            name = topic_patterns.check_pattern(topic)
        else:
            try:
                name = topic_name(name_of(topic))
            except ValueError as error:
                raise ConfigError(str(error), setting="topic") from None
        if name in names:
            raise ConfigError(f'topic "{name}" is named twice', setting="topic")
        names.append(name)
    return tuple(names)


def check_compatible(one: "Route", other: "Route", group: str | None) -> None:
    """Refuses two routes of a group that read the same topic, or get their partitions in different ways."""
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


def check_one_guarantee(group: str, routes: "Sequence[Route]", config: "Config") -> None:
    """Refuses a group of which only some routes are exactly once: the routes of a group commit together."""
    wanted = [route for route in routes if route.is_exactly_once(config)]
    if not wanted:
        return
    other = next((route for route in routes if not route.is_exactly_once(config)), None)
    if other is not None:
        raise ConfigError(
            f'group "{group}" commits the offsets of all its routes together, and {wanted[0].name} is exactly once and '
            f"{other.name} is not: give one of them another group=, or make both exactly_once",
            setting="exactly_once",
        )
    for route in wanted:
        check_exactly_once({"offsets": route.offsets, "offset_map": route.offset_map, "partitions": route.partitions})
    level = config.kafka.get("isolation.level")
    if level is not None and level.value != "read_committed":
        raise ConfigError(
            f"isolation.level = {level.value} (from {level.origin}): exactly_once reads committed records only; leave "
            "it out",
            setting="isolation.level",
            origin=level.origin,
        )


def check_one_kind(group: str, routes: "Sequence[Route]") -> None:
    """Refuses a group of which only some routes are queues: a share group is a group of another type."""
    queue = next((route for route in routes if route.queue), None)
    other = next((route for route in routes if not route.queue), None)
    if queue is not None and other is not None:
        raise ConfigError(
            f'group "{group}" would be a share group for {queue.name}, which is a queue, and a consumer group for '
            f"{other.name}, which is none: give one of them another group=",
            setting="queue",
        )


def check_combinations(values: Mapping[str, Any], topics: tuple[str, ...], shape: HandlerSignature) -> None:
    """Refuses settings that are valid alone and contradict each other, or the handler."""
    _check_concurrency(values)
    _check_offsets(values, shape)
    _check_tick(values, shape)
    if values.get("queue"):
        _check_queue(values)
    if values.get("exactly_once"):
        check_exactly_once(values)
    if "nodes" in values and isinstance(values.get("partitions"), Mapping):
        raise ConfigError("nodes= and partitions= both pin this route to nodes: leave nodes out", setting="nodes")
    if "delay" in values and "max_age" in values and values["max_age"] <= values["delay"]:
        raise ConfigError(
            "max_age is not longer than delay: each record would be too old before it is due", setting="max_age"
        )
    for name in ("dedup_window", "dedup_memory"):
        if name in values and "dedup" not in values:
            raise ConfigError(
                f'{name} is about ids of records: say what identifies one, as dedup="header:id"', setting=name
            )
    if values.get("dead_letter") in topics:
        raise ConfigError(
            f'dead_letter="{values["dead_letter"]}" is a topic that the route reads: a failing record would return '
            "to it again and again; name another topic",
            setting="dead_letter",
        )
    check_max_wait(values.get("latency"), values.get("max_wait"))
    if values.get("max_messages") == 1 and values.get("max_wait"):
        raise ConfigError(
            "max_wait waits for more messages, and max_messages=1 wants no more: leave one of them out",
            setting="max_wait",
        )


def check_exactly_once(values: Mapping[str, Any]) -> None:
    """Refuses settings that cannot work in transactions."""
    offsets = values.get("offsets", "auto")
    if offsets == "at_most_once":
        raise ConfigError(
            'exactly_once commits offsets with what the handler has produced, and offsets="at_most_once" commits them '
            "before the handler runs: leave one of the two out",
            setting="exactly_once",
        )
    if offsets == "manual":
        raise ConfigError(
            'exactly_once commits what a job has produced when the job ends, and with offsets="manual" its records may '
            "be marked later: leave one of the two out",
            setting="exactly_once",
        )
    if values.get("offset_map"):
        raise ConfigError(
            "exactly_once commits an offset with the results of all records before it, and offset_map is about records "
            "behind it: leave offset_map out",
            setting="exactly_once",
        )
    if values.get("partitions") is not None:
        raise ConfigError(
            "exactly_once needs the group's generations, which fence a process that was replaced, and partitions= "
            "reads without them: leave one of the two out",
            setting="exactly_once",
        )


# Settings that a queue has no use for, with the reason.
_NOT_IN_QUEUES = {
    "exactly_once": "a share group acknowledges records outside of transactions",
    "offset_map": "each record is acknowledged, and no offset is committed",
    "max_unmarked": "each record is acknowledged, and no offset is committed",
    "dedup": "the brokers hand out records in any order, and ids count in the order of the log",
    "delay": "a record that waits is locked meanwhile; raise grete.RetryLater in the handler instead",
    "partitions": "the brokers decide which member gets which records",
}


def _check_queue(values: Mapping[str, Any]) -> None:
    """Refuses settings of a queue that would have no effect."""
    for name, reason in _NOT_IN_QUEUES.items():
        if values.get(name):
            raise ConfigError(f"{name} does not work in a queue: {reason}; leave one of the two out", setting=name)
    if values.get("offsets", "auto") != "auto":
        raise ConfigError(
            f'offsets="{values["offsets"]}" does not work in a queue: each record is acknowledged when its call ends, '
            "and no offset is committed; leave offsets out",
            setting="offsets",
        )
    if values.get("concurrency") != "unordered":
        raise ConfigError(
            f'concurrency="{values["concurrency"]}" keeps an order, and a queue has none: members get records as they '
            "come; leave concurrency out",
            setting="concurrency",
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


def _check_offsets(values: Mapping[str, Any], shape: HandlerSignature) -> None:
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


def _check_tick(values: Mapping[str, Any], shape: HandlerSignature) -> None:
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
