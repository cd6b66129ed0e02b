"""Targets and page of the exactly-once benchmark, from made-up rounds."""

from __future__ import annotations

from argparse import Namespace

import pytest

from benchmarks.pipeline.exactly_once import CLIENTS, PACED, PYTHON_PEERS, Latency, markdown, targets
from benchmarks.pipeline.rounds import Result, Round

FACTS = {
    "date": "2026-01-01",
    "machine": {"cpu": "a CPU", "cores": "2", "memory": "1 GiB", "system": "Linux"},
    "kafka": "embedded",
    "python": "3.11",
}


def rounds(*elapsed: float, cpu: float = 1.0) -> list[Round]:
    return [Round(cpu, 0.0, one) for one in elapsed]


def test_ratios_are_those_of_the_same_round() -> None:
    # A machine that is ten times slower in the second round changes nothing.
    found = {one.text: one for one in targets({"function": rounds(1, 10, 1), "function-eos": rounds(2, 20, 1)}, {})}
    ratio = found["function, exactly once over at least once: records/s"]
    assert ratio.measured == pytest.approx(0.5)
    assert ratio.word == "MISSED"
    assert found["class, exactly once over at least once: records/s"].word == "not measured"


def test_the_best_peer_is_the_one_that_counts() -> None:
    measured = {"function-eos": rounds(1, cpu=1.0), "confluent": rounds(9, cpu=4.0), "quix": rounds(9, cpu=50.0)}
    found = {one.text: one for one in targets(measured, {"function-eos": Latency(60.0, 110.0, 5000)})}
    assert found["function over the best Python peer: records per CPU second"].measured == pytest.approx(4.0)
    assert found["paced, transactions every 100 ms: p50 in ms"].word == "ok"


def test_the_page_has_a_row_for_each_client() -> None:
    results = [Result.of(name, client.title, rounds(2.0)) for name, client in CLIENTS.items()]
    paced = {name: Latency(55.0, 105.0, 5000) for name in PACED}
    options = Namespace(kafka="embedded", records=1000, rounds=1)
    page = markdown(FACTS, results, paced, targets({}, paced), options)
    for client in CLIENTS.values():
        assert f"| {client.title} " in page
    assert page.count("500,000 |") == len(CLIENTS)
    assert "embedded broker" in page


def test_names_that_targets_use_exist() -> None:
    assert {*PYTHON_PEERS, *PACED, "function-eos", "class-eos", "async-eos", "java", "streams"} <= CLIENTS.keys()
    assert all(client.transactions != name.endswith(("function", "class", "async")) for name, client in CLIENTS.items())
