"""Which node runs which routes, and reads which partitions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

import grete
from grete._routing import pinning

KAFKA = {"bootstrap.servers": "localhost:9092"}
Found = list[tuple[str, tuple[str, ...], object]]


def app_of(*consumers: tuple[str | tuple[str, ...], Mapping[str, Any]], count: int = 3, **settings: Any) -> grete.App:
    app = grete.App("a", kafka=KAFKA, swarm={"nodes": count}, **settings)
    for topics, own in consumers:
        app.consumer(*((topics,) if isinstance(topics, str) else topics), **own)(lambda messages: None)
    return app


def found(app: grete.App, node: int | None) -> Found:
    config = app.settings()
    groups = app.groups(config)
    if node is not None:
        pinning.check_pins(groups, config)
    narrowed = pinning.routes_of_node(groups, config, node)
    return [(group, route.topics, route.assigned) for group, routes in narrowed.items() for route in routes]


def test_unpinned_routes_run_everywhere() -> None:
    app = app_of(("orders", {}), ("clicks", {"group": "c"}))
    assert [found(app, node) for node in (0, 1, 2, None)] == [[("a", ("orders",), None), ("c", ("clicks",), None)]] * 4


def test_routes_run_where_they_are_pinned_and_all_of_them_in_one_process() -> None:
    app = app_of(("orders", {"nodes": [0, 2]}), ("clicks", {}), count=4)
    orders, clicks = ("a", ("orders",), None), ("a", ("clicks",), None)
    assert [found(app, node) for node in range(4)] == [[orders, clicks], [clicks], [orders, clicks], [clicks]]
    assert found(app, None) == [orders, clicks]


def test_the_app_pins_topics_and_splits_routes_of_several() -> None:
    app = app_of((("orders", "returns", "clicks"), {}), nodes={0: ["orders"], 1: ["returns", "orders"]})
    assert [[topics for _, topics, _ in found(app, node)] for node in range(3)] == [
        [("orders", "clicks")],
        [("orders", "returns", "clicks")],
        [("clicks",)],
    ]


def test_a_node_may_have_nothing_to_do() -> None:
    app = app_of(("orders", {"nodes": [1]}))
    assert [found(app, node) for node in range(3)] == [[], [("a", ("orders",), None)], []]


def test_partitions_by_node() -> None:
    app = app_of((("orders", "returns"), {"partitions": {0: [0, 3], 2: [1]}}))
    assert found(app, 0) == [
        ("a", ("orders", "returns"), (("orders", 0), ("orders", 3), ("returns", 0), ("returns", 3)))
    ]
    assert found(app, 1) == []
    assert found(app, 2) == [("a", ("orders", "returns"), (("orders", 1), ("returns", 1)))]
    assert found(app, None)[0][2] == tuple((topic, at) for topic in ("orders", "returns") for at in (0, 1, 3))


def test_a_list_of_partitions_is_divided_among_the_nodes_of_the_route() -> None:
    app = app_of(("orders", {"partitions": range(5), "nodes": [0, 2]}), ("clicks", {"partitions": [7], "group": "c"}))
    assert found(app, 0) == [
        ("a", ("orders",), (("orders", 0), ("orders", 2), ("orders", 4))),
        ("c", ("clicks",), (("clicks", 7),)),
    ]
    assert found(app, 1) == []
    assert found(app, 2) == [("a", ("orders",), (("orders", 1), ("orders", 3)))]
    assert found(app, None)[0][2] == tuple(("orders", at) for at in range(5))


@pytest.mark.parametrize(
    ("own", "says"),
    [
        ({"nodes": 2}, r"write nodes=\[2\] for node 2 alone"),
        ({"nodes": []}, "it is empty"),
        ({"nodes": [1, 1]}, "node 1 is named twice"),
        ({"nodes": [-1]}, "a node is a whole number from 0 up, not -1"),
        ({"nodes": {0: [1]}}, r"a list of nodes, like \[0, 2\], not \{0: \[1\]\}"),
        ({"nodes": "all"}, r"a list of nodes, like \[0, 2\], not 'all'"),
        ({"partitions": 3}, "a list of partitions"),
        ({"partitions": []}, "it is empty"),
        ({"partitions": [True]}, "a partition is a whole number"),
        ({"partitions": {}}, "names none"),
        ({"partitions": {0: [1, 2], 1: [2]}}, "partition 2 is given to node 0 and to node 1"),
        ({"partitions": {"x": [1]}}, "a node is a whole number from 0 up, not 'x'"),
        ({"partitions": {0: [1]}, "nodes": [0]}, "leave nodes out"),
    ],
)
def test_what_makes_no_sense_is_refused_where_it_is_written(own: dict[str, Any], says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_swarm_pinning\.py:\d+: consumer .*{says}"):
        app_of(("orders", own))


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (3, r'how many nodes there are is swarm=\{"nodes": 3\}'),
        ({}, "it pins topics to nodes"),
        ({0: "orders"}, r'topics come in a list, like \{0: \["orders"\]\}'),
        ({-1: ["orders"]}, "a node is a whole number"),
        ({0: ["or ders"]}, "is no topic name"),
    ],
)
def test_the_apps_pins_are_checked_where_they_are_written(value: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=rf"test_swarm_pinning\.py:\d+: nodes \(from code\): .*{says}"):
        grete.App("a", kafka=KAFKA, nodes=value)


@pytest.mark.parametrize(
    ("consumers", "settings", "says"),
    [
        (
            [("orders", {"nodes": [0, 3]})],
            {},
            r"pinning\.py:\d+: .*: nodes=\[0, 3\]: there is no node 3: swarm\.nodes is 3 \(from code\), .* 0 to 2",
        ),
        ([("orders", {"partitions": {5: [0]}})], {}, r"partitions=\{5: \[0\]\}: there is no node 5"),
        ([("orders", {})], {"nodes": {7: ["orders"]}}, r"nodes \(from code\): \{7: \['orders'\]\}: there is no node 7"),
        (
            [("orders", {})],
            {"nodes": {0: ["order"]}},
            'pins topic "order", which no consumer reads; did you mean "orders"',
        ),
        (
            [("orders", {"nodes": [1]})],
            {"nodes": {0: ["orders"]}},
            r'says nodes=\[1\], but nodes \(from code\) pins "orders" to \[0\]: pin it in one place',
        ),
        ([("orders", {"partitions": {1: [0]}})], {"nodes": {0: ["orders"]}}, r"says partitions=\{1: \[0\]\}, but"),
    ],
)
def test_pins_that_contradict_each_other_are_refused(
    consumers: list[tuple[str, dict[str, Any]]], settings: dict[str, Any], says: str
) -> None:
    app = grete.App("a", kafka=KAFKA, swarm={"nodes": 3}, **settings)
    for topic, own in consumers:
        app.consumer(topic, **own)(lambda messages: None)
    config = app.settings()
    with pytest.raises(grete.ConfigError, match=says):
        pinning.check_pins(app.groups(config), config)


def test_pins_that_say_the_same_agree() -> None:
    app = grete.App("a", kafka=KAFKA, swarm={"nodes": 3}, nodes={1: ["orders"]})
    app.consumer("orders", nodes=[1])(lambda messages: None)
    assert [bool(found(app, node)) for node in range(3)] == [False, True, False]


def test_pins_come_from_a_file_too(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "grete.toml").write_text('[nodes]\n0 = ["orders"]\n')
    app = app_of(("orders", {}), ("clicks", {}))
    assert [len(found(app, node)) for node in range(3)] == [2, 1, 1]


def test_a_group_has_its_partitions_in_one_way() -> None:
    app = app_of(("orders", {"group": "g"}))
    with pytest.raises(grete.ConfigError, match=r"says which partitions it reads, and .*one group cannot have both"):
        app.consumer("clicks", group="g", partitions=[0])(lambda messages: None)
    app = app_of(("orders", {}), ("clicks", {"partitions": [0], "group": "a"}))
    with pytest.raises(grete.ConfigError, match='has its partitions from group "a"'):
        app.groups(app.settings())


def test_a_typing_error_in_a_pin_is_reported_in_one_process_too() -> None:
    app = grete.App("b", kafka=KAFKA, nodes={0: ["order"]})
    app.consumer("orders")(lambda messages: None)
    with pytest.raises(grete.ConfigError, match="which no consumer reads"):
        app.run()
