"""Assignment of routes to nodes (pins), and of partitions to nodes with direct assignment."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from grete._config.layers import Config
from grete._config.suggest import did_you_mean
from grete._routing.routes import Partitions, Route
from grete.errors import ConfigError

RoutesByGroup = Mapping[str, Sequence[Route]]


def check_pins(groups: RoutesByGroup, config: Config) -> None:
    """Refuses pins that contradict each other or the number of nodes. Called before the fork."""
    check_pinned_topics(groups, config)
    for route in _all_routes(groups):
        for topic in route.topics:
            _check_conflict(route, topic, config)
        own = route.partitions if isinstance(route.partitions, Mapping) else route.nodes
        _check_range(own or (), config, f"{_describe_route(route)}: {_describe_pin(route)}")
    pinned = config.settings["nodes"]
    for node, topics in (pinned.value or {}).items():
        _check_range([node], config, f"nodes (from {pinned.origin}): {{{node}: {list(topics)}}}")


def check_any_consumer(groups: RoutesByGroup, app: str) -> None:
    """Refuses an App that would do nothing."""
    if not groups:
        raise ConfigError(f'App "{app}" has no consumer: declare one with @app.consumer("topic")')


def check_pinned_topics(groups: RoutesByGroup, config: Config) -> None:
    """Refuses a pin of a topic that no route reads, because it would have no effect. Used by `grete run`, too."""
    pinned = config.settings["nodes"]
    known = {topic for route in _all_routes(groups) for topic in route.topics}
    for topics in (pinned.value or {}).values():
        for topic in topics:
            if topic not in known:
                raise ConfigError(
                    f'nodes (from {pinned.origin}) pins topic "{topic}", which no consumer reads'
                    f"{did_you_mean(topic, known)}",
                    setting="nodes",
                    origin=pinned.origin,
                )


def routes_of_node(groups: RoutesByGroup, config: Config, node: int | None) -> dict[str, list[Route]]:
    """Returns the routes of one process by group, narrowed to its topics and partitions, without groups that are empty.

    `node` None: the only process of `grete run`, which runs everything, whatever is pinned.
    """
    result: dict[str, list[Route]] = {}
    for group, routes in groups.items():
        narrowed = [_narrow_route(route, config, node) for route in routes]
        if kept := [route for route in narrowed if route is not None]:
            result[group] = kept
    return result


def nodes_of(route: Route, topic: str, config: Config) -> tuple[int, ...]:
    """Returns the nodes that run the route for this topic."""
    if isinstance(route.partitions, Mapping):
        return tuple(sorted(route.partitions))
    if route.nodes is not None:
        return route.nodes
    return _pinned_nodes(topic, config) or tuple(range(config.swarm.nodes))


def _narrow_route(route: Route, config: Config, node: int | None) -> Route | None:
    topics, assigned = [], []
    for topic in route.topics:
        nodes = nodes_of(route, topic, config)
        if node is not None and node not in nodes:
            continue
        if route.partitions is not None:
            mine = _partitions_of_node(route.partitions, nodes, node)
            if not mine:
                continue  # more nodes than partitions
            assigned += [(topic, partition) for partition in mine]
        topics.append(topic)
    if not topics:
        return None
    return replace(route, topics=tuple(topics), assigned=tuple(assigned) if route.partitions is not None else None)


def _partitions_of_node(given: Partitions, nodes: Sequence[int], node: int | None) -> Sequence[int]:
    """Returns the node's part of the partitions: a list is divided among the nodes that run the route."""
    if isinstance(given, Mapping):
        return sorted(p for some in given.values() for p in some) if node is None else given[node]
    return given if node is None else given[nodes.index(node) :: len(nodes)]


def _check_conflict(route: Route, topic: str, config: Config) -> None:
    """Raises ConfigError if the App's pins and the route's own pins differ."""
    pinned = _pinned_nodes(topic, config)
    own = nodes_of(route, topic, config)
    if not pinned or own == pinned:
        return
    origin = config.settings["nodes"].origin
    raise ConfigError(
        f'{_describe_route(route)} says {_describe_pin(route)}, but nodes (from {origin}) pins "{topic}" to '
        f"{list(pinned)}: pin it in one place",
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


def _pinned_nodes(topic: str, config: Config) -> tuple[int, ...]:
    pinned = config["nodes"] or {}
    return tuple(sorted(node for node, topics in pinned.items() if topic in topics))


def _describe_route(route: Route) -> str:
    return f"{route.location}: consumer {route.name}" if route.location else f"consumer {route.name}"


def _describe_pin(route: Route) -> str:
    """Formats the setting that pins the route."""
    if isinstance(route.partitions, Mapping):
        return f"partitions={ {node: list(some) for node, some in route.partitions.items()} }"
    return f"nodes={list(route.nodes or ())}"


def _all_routes(groups: RoutesByGroup) -> Iterable[Route]:
    return (route for routes in groups.values() for route in routes)
