"""Which node runs which routes, and who reads which partitions by direct assignment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from grete._suggest import did_you_mean
from grete.config import Config
from grete.errors import ConfigError
from grete.routes import Partitions, Route

Groups = Mapping[str, Sequence[Route]]


def check(groups: Groups, config: Config) -> None:
    """Refuses pins that contradict each other or the number of nodes. Before the fork."""
    check_topics(groups, config)
    for route in _all(groups):
        for topic in route.topics:
            _check_agreed(route, topic, config)
        own = route.partitions if isinstance(route.partitions, Mapping) else route.nodes
        _check_range(own or (), config, f"{_named(route)}: {_said(route)}")
    pinned = config.settings["nodes"]
    for node, topics in (pinned.value or {}).items():
        _check_range([node], config, f"nodes (from {pinned.origin}): {{{node}: {list(topics)}}}")


def check_some(groups: Groups, app: str) -> None:
    """Refuses an App that would do nothing."""
    if not groups:
        raise ConfigError(f'App "{app}" has no consumer: declare one with @app.consumer("topic")')


def check_topics(groups: Groups, config: Config) -> None:
    """Refuses a pin of a topic that no route reads: it would have no effect. With `grete run`, too."""
    pinned = config.settings["nodes"]
    known = {topic for route in _all(groups) for topic in route.topics}
    for topics in (pinned.value or {}).values():
        for topic in topics:
            if topic not in known:
                raise ConfigError(
                    f'nodes (from {pinned.origin}) pins topic "{topic}", which no consumer reads'
                    f"{did_you_mean(topic, known)}",
                    setting="nodes",
                    origin=pinned.origin,
                )


def of_node(groups: Groups, config: Config, node: int | None) -> dict[str, list[Route]]:
    """What one process runs: routes narrowed to its topics and its partitions; groups without a route are left out.

    None: the one process of `grete run`, which runs everything wherever it is pinned.
    """
    result: dict[str, list[Route]] = {}
    for group, routes in groups.items():
        narrowed = [_narrowed(route, config, node) for route in routes]
        if kept := [route for route in narrowed if route is not None]:
            result[group] = kept
    return result


def nodes_of(route: Route, topic: str, config: Config) -> tuple[int, ...]:
    """The nodes that run the route for this topic."""
    if isinstance(route.partitions, Mapping):
        return tuple(sorted(route.partitions))
    if route.nodes is not None:
        return route.nodes
    return _pinned(topic, config) or tuple(range(config.swarm.nodes))


def _narrowed(route: Route, config: Config, node: int | None) -> Route | None:
    topics, assigned = [], []
    for topic in route.topics:
        nodes = nodes_of(route, topic, config)
        if node is not None and node not in nodes:
            continue
        if route.partitions is not None:
            mine = _partitions(route.partitions, nodes, node)
            if not mine:
                continue  # more nodes than partitions
            assigned += [(topic, partition) for partition in mine]
        topics.append(topic)
    if not topics:
        return None
    return replace(route, topics=tuple(topics), assigned=tuple(assigned) if route.partitions is not None else None)


def _partitions(given: Partitions, nodes: Sequence[int], node: int | None) -> Sequence[int]:
    """A list is divided among the nodes that run the route."""
    if isinstance(given, Mapping):
        return sorted(p for some in given.values() for p in some) if node is None else given[node]
    return given if node is None else given[nodes.index(node) :: len(nodes)]


def _check_agreed(route: Route, topic: str, config: Config) -> None:
    """The App's pins and the route's own say the same, or only one of them says anything."""
    pinned = _pinned(topic, config)
    own = nodes_of(route, topic, config)
    if not pinned or own == pinned:
        return
    origin = config.settings["nodes"].origin
    raise ConfigError(
        f'{_named(route)} says {_said(route)}, and nodes (from {origin}) pins "{topic}" to {list(pinned)}: say it in '
        "one place",
        setting="nodes",
        origin=origin,
    )


def _check_range(nodes: Iterable[int], config: Config, where: str) -> None:
    count = config.swarm.nodes
    beyond = next((node for node in nodes if node >= count), None)
    if beyond is not None:
        there = "only node 0" if count == 1 else f"nodes 0 to {count - 1}"
        raise ConfigError(
            f"{where}: there is no node {beyond}: swarm.nodes is {count} "
            f"(from {config.swarm_values['nodes'].origin}), which makes {there}",
            setting="nodes",
        )


def _pinned(topic: str, config: Config) -> tuple[int, ...]:
    pinned = config["nodes"] or {}
    return tuple(sorted(node for node, topics in pinned.items() if topic in topics))


def _named(route: Route) -> str:
    return f"{route.location}: consumer {route.name}" if route.location else f"consumer {route.name}"


def _said(route: Route) -> str:
    """The setting that pins the route."""
    if isinstance(route.partitions, Mapping):
        return f"partitions={ {node: list(some) for node, some in route.partitions.items()} }"
    return f"nodes={list(route.nodes or ())}"


def _all(groups: Groups) -> Iterable[Route]:
    return (route for routes in groups.values() for route in routes)
