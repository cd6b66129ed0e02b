"""Tests of the model: in this process, and in two processes that share it."""

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from examples.swarm_model import scores
from examples.swarm_model.scores import Basket, advice, app, baskets
from grete import testing
from grete.client import Consumer

GRETE = Path(sys.executable).parent / "grete"
ROOT = Path(scores.__file__).parents[2]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scores, "PRODUCTS", 1000)


def test_advice_is_about_other_products() -> None:
    run = testing.consume(app, baskets, [Basket([1, 2]), Basket([5000])], key="ann")
    (found,) = run.published
    assert len(set(found.products) - {1, 2}) == 5
    assert [letter.error for letter in run.dead] == ["IndexError"]


@pytest.mark.kafka(topics={"baskets": 4, "advice": 1, "baskets.dlq": 1})
def test_one_process_on_a_broker(kafka: testing.Kafka) -> None:
    with kafka.run(app) as running:
        kafka.produce(baskets, *[Basket([number]) for number in range(8)], key="ann")
        running.settle()
    assert len(kafka.values(advice)) == 8


@pytest.fixture
def swarm(kafka: testing.Kafka, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Two nodes; yields the path of their control socket, which has 107 bytes at most."""
    monkeypatch.setenv("GRETE_KAFKA_BOOTSTRAP_SERVERS", kafka.bootstrap_servers)
    with tempfile.TemporaryDirectory() as directory:
        control = Path(directory) / "control.sock"
        command = [str(GRETE), "swarm", "examples.swarm_model.scores:app", "--control", str(control)]
        with subprocess.Popen(command, cwd=ROOT) as process:
            yield control
            process.terminate()
            assert process.wait(30) == 0


@pytest.mark.kafka(topics={"baskets": 4, "advice": 1, "baskets.dlq": 1})
def test_two_nodes_share_the_model(kafka: testing.Kafka, swarm: Path) -> None:
    status = ready(swarm)
    assert len(status["nodes"]) == 2
    for number in range(40):
        kafka.produce(baskets, Basket([number]), key=f"customer-{number}")
    nodes = set()
    with Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer:
        consumer.assign([("advice", 0, "earliest")])
        found = 0
        while found < 40:
            messages = consumer.poll(timeout=30.0)
            assert len(messages) > 0, "no advice within 30 s"
            found += len(messages)
            nodes |= {json.loads(message.value or b"")["node"] for message in messages}
    assert nodes == {0, 1}
    vectors = scores.DIMENSIONS * 4 * 200_000
    private = [node["memory"]["private"] for node in ready(swarm)["nodes"]]
    assert max(private) < vectors, "no node has a copy of the model"


def ready(control: Path) -> dict[str, Any]:
    """Returns what `grete ps` reports, once each node has half of the partitions."""
    end = time.monotonic() + 60.0
    while True:
        command = [str(GRETE), "ps", "--json", "--control", str(control)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        status: dict[str, Any] = json.loads(done.stdout) if done.stdout else {"nodes": []}
        if [group["partitions"] for node in status["nodes"] for group in node["groups"]] == [2, 2]:
            return status
        assert time.monotonic() < end, f"the nodes are not ready: {done}"
