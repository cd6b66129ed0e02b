"""200 forks while a process produces and consumes: no process hangs, nothing is shared, no record comes twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections import Counter
from typing import Any

import pytest

from tests.integration.apps.fork_storm import KINDS, PARTITIONS
from tests.integration.producers import values
from tests.kafka import KafkaCluster
from tests.kafka.foreign_readers import sequences
from tests.kafka.jars import ROOT
from tests.kafka.processes import end, spawn
from tests.kafka.stored_batches import assert_sequences, batches

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(240)]
FORKS = 200
# The parent may wait as long as a fork copies its page tables, or a child takes the processor; it must never stall.
STALL = 5.0


def run_storm(kafka: KafkaCluster, topic: str, children: str, group: str) -> dict[str, Any]:
    seed = time.time_ns() % 1_000_000
    print(f"seed {seed}")
    arguments = [kafka.bootstrap_servers, topic, children, group, str(FORKS), str(seed)]
    process = spawn(
        # Since 3.12 Python warns of forks beside threads: they are what is tested.
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.integration.apps.fork_storm", *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        output, errors = process.communicate(timeout=200.0)
    finally:
        end(process)
    print(errors.decode()[-8000:])
    assert process.returncode == 0
    answer: dict[str, Any] = json.loads(output)
    return answer


def test_two_hundred_forks(kafka: KafkaCluster, topic: str, group: str) -> None:
    children = f"{topic}-children"
    kafka.create_topic(topic, partitions=PARTITIONS)
    kafka.create_topic(f"{topic}-idle")
    kafka.create_topic(children)
    answer = run_storm(kafka, topic, children, group)
    ended = answer.pop("children")
    print(answer)
    print(f"{answer['stormy'] / answer['calm']:.2f} of the records per second before")

    # Each child gets an error for its parent's handles, and its own producer works.
    assert Counter(child["kind"] for child in ended) == Counter(KINDS[at % len(KINDS)] for at in range(FORKS))
    for child in ended:
        assert not child["late"], child
        assert child["status"] == (-9 if child["kind"] == "killed" else 0), child
        assert not child.get("wrong"), child
    wrote = [value.encode() for child in ended for value in child.get("wrote", ())]
    assert sorted(value for value in values(kafka, children) if value is not None) == sorted(wrote)

    # The parent: all its records, once and in order, and never a stall.
    assert answer["errors"] == []
    assert answer["outcomes"] == {"written": answer["total"]}
    assert answer["undelivered"] == 0
    assert answer["longest"] < STALL
    assert answer["consumed"] > 0
    each = answer["total"] // PARTITIONS
    due = {"count": each, "distinct": each, "falls": 0, "strays": 0, "twice": [], "missing": []}
    assert sequences(kafka, topic) == [{"partition": at, **due} for at in range(PARTITIONS)]

    # Identities: one member, and a producer id for each process that produced.
    assert answer["members"] == 1
    parents = {batch.producer_id for partition in range(PARTITIONS) for batch in batches(kafka, topic, partition)}
    assert len(parents) == 1
    stored = batches(kafka, children)
    assert_sequences(stored)
    assert len({batch.producer_id for batch in stored}) == sum(1 for child in ended if child.get("wrote"))
    assert not parents & {batch.producer_id for batch in stored}
