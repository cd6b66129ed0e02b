"""Checks of a route's settings: names and values, which of them contradict each other, and routes beside each other."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from grete._config.latency import check_max_wait
from grete._config.parsers import topic_name
from grete._config.registry import ROUTE_SETTINGS, check_names
from grete._routing.signatures import HandlerSignature
from grete.errors import ConfigError, NotSupportedError
from grete.topic import name_of

if TYPE_CHECKING:
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
    """Checks that topic names are valid for Kafka, and given once."""
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
            raise NotSupportedError(
                f'topic patterns like "{topic}" are not built yet: name each topic', setting="topic"
            )
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


def check_combinations(values: Mapping[str, Any], topics: tuple[str, ...], shape: HandlerSignature) -> None:
    """Refuses settings that are valid alone and contradict each other, or the handler."""
    _check_concurrency(values)
    _check_offsets(values, shape)
    _check_tick(values, shape)
    if "nodes" in values and isinstance(values.get("partitions"), Mapping):
        raise ConfigError("nodes= and partitions= both pin this route to nodes: leave nodes out", setting="nodes")
    if "delay" in values and "max_age" in values and values["max_age"] <= values["delay"]:
        raise ConfigError(
            "max_age is not longer than delay: each record would be too old before it is due", setting="max_age"
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
