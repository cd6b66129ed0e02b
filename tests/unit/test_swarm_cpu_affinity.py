"""Which CPU a node gets."""

from __future__ import annotations

import os

import pytest

import grete
from grete._config.layers import Config, parse_layer, resolve_config
from grete._swarm.node import cpu_affinity

KAFKA = {"bootstrap.servers": "localhost:9092"}


def resolved(value: object) -> Config:
    return resolve_config(
        parse_layer({"swarm": {"cpus": value}}, KAFKA, "code"), parse_layer({}, {}, "command line"), {}
    )


@pytest.mark.parametrize(
    ("value", "by_node"),
    [
        ("auto", [3, 4, 9, 3, 4]),
        ([4, 3], [4, 3, 4, 3, 4]),
        ("9", [9, 9, 9, 9, 9]),
        ("none", [None] * 5),
    ],
)
def test_nodes_have_one_each_and_share_where_there_are_fewer(
    monkeypatch: pytest.MonkeyPatch, value: object, by_node: list[int | None]
) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {9, 3, 4})
    set_to: list[set[int]] = []
    monkeypatch.setattr("os.sched_setaffinity", lambda _, some: set_to.append(some))
    config = resolved(value)
    cpu_affinity.check_cpus(config)
    assert [cpu_affinity.pin_to_cpu(config, node) for node in range(5)] == by_node
    assert set_to == [{cpu} for cpu in by_node if cpu is not None]


@pytest.mark.parametrize(
    ("value", "says"),
    [
        ([99, 3], "CPU 99 is not among those that this process may use: 3-5, 9;"),
        ("7-8", 'CPUs 7, 8 are not among those .*name some of these, or "auto"'),
    ],
)
def test_a_cpu_that_is_not_there_is_refused(monkeypatch: pytest.MonkeyPatch, value: object, says: str) -> None:
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {9, 3, 4, 5})
    with pytest.raises(grete.ConfigError, match=rf"swarm\.cpus \(from code\): {says}") as caught:
        cpu_affinity.check_cpus(resolved(value))
    assert caught.value.origin == "code"


def test_the_machine_has_what_auto_takes() -> None:
    before = os.sched_getaffinity(0)
    try:
        assert cpu_affinity.pin_to_cpu(resolved("auto"), 1) in before
        assert len(os.sched_getaffinity(0)) == 1
    finally:
        os.sched_setaffinity(0, before)
