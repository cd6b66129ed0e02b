"""Producing to a broker that is gone: bounded memory, errors or blocking as asked for, and a close in time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.integration.apps.broker_loss_producer import BUFFER, CLOSE
from tests.integration.producers import values
from tests.kafka import KafkaCluster, new_cluster
from tests.kafka.jars import ROOT
from tests.kafka.load import index_of
from tests.kafka.ports import ReservedPort
from tests.kafka.processes import end, spawn

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]
# What a producer may take beyond buffer.memory: sockets, metadata, batches' own objects, what the allocator keeps.
OVERHEAD = 6 << 20
# Seconds that a loaded machine may add; without its limit each call would take longer by far.
LATE = 10.0
Answer = dict[str, Any]


def flood(
    servers: str, topic: str, max_block: str, *, keep: bool = False, away: Callable[[], object] | None = None
) -> Answer:
    """Run apps.flood; `away` makes the broker go, once the flood is in full flow; without it there never was one."""
    command = [
        sys.executable,
        "-m",
        "tests.integration.apps.broker_loss_producer",
        servers,
        topic,
        "first" if away else "never",
    ]
    process = spawn(
        [*command, max_block, str(int(keep))],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        if away is not None:
            assert process.stdout.readline() == b"ready\n"
            away()
        output, errors = process.communicate(b"\n", timeout=60.0)
    finally:
        end(process)
    assert process.returncode == 0, errors.decode()
    answer: Answer = json.loads(output)
    print({name: row for name, row in answer.items() if name != "outcomes"})
    return answer


def check(answer: Answer, topic: str, max_block: float) -> None:
    """What holds however the broker went."""
    used = answer["peak"] - answer["resting"]
    print(f"{used / (1 << 20):.1f} MiB at the peak for buffer.memory = {BUFFER >> 20} MiB")
    assert used < BUFFER + OVERHEAD
    assert max_block - 0.1 <= answer["refused_after"] < max_block + LATE
    assert CLOSE - 0.5 <= answer["close_took"] < CLOSE + LATE
    assert answer["count"] == answer["not_written"] + answer["unknown"]
    assert answer["by_topic"] == ({topic: answer["count"]} if answer["count"] else {})


@pytest.fixture
def lonely() -> Iterator[KafkaCluster]:
    """A broker of one's own."""
    with new_cluster() as kafka:
        yield kafka


@pytest.mark.parametrize("max_block", [0, 1])
@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_a_broker_that_goes_in_full_flow(lonely: KafkaCluster, topic: str, sig: signal.Signals, max_block: int) -> None:
    lonely.create_topic(topic)
    answer = flood(lonely.bootstrap_servers, topic, f"{max_block}s", away=lambda: lonely.kill(1, sig))
    assert set(answer["errors"]) == {"BufferFullError"}
    assert answer["refused"].startswith("BufferFullError:")
    assert answer["count"] > BUFFER / 200, "the buffer was full of them"
    assert answer["not_written"] > 0
    if sig == signal.SIGSTOP:
        assert answer["unknown"] > 0, "what was under way to it"
    check(answer, topic, max_block)


@pytest.mark.parametrize("max_block", [0, 1])
def test_a_port_that_never_answers(topic: str, max_block: int) -> None:
    port = ReservedPort()
    try:
        answer = flood(f"127.0.0.1:{port.number}", topic, f"{max_block}s")
    finally:
        port.release()
    assert answer["accepted"] == answer["count"] == answer["unknown"] == 0, "nothing is known of the topic"
    assert topic in answer["refused"]
    assert f"within {max_block}.0 s" in answer["refused"]
    assert answer["close_took"] < LATE
    answer["close_took"] = CLOSE
    check(answer, topic, max_block)


@pytest.mark.parametrize("sig", [signal.SIGKILL, signal.SIGSTOP], ids=["killed", "stopped"])
def test_what_is_not_written_is_not_there(lonely: KafkaCluster, topic: str, sig: signal.Signals) -> None:
    """And what is written is, once and in order; only what is unknown may be either."""
    lonely.create_topic(topic)
    answer = flood(lonely.bootstrap_servers, topic, "0s", keep=True, away=lambda: lonely.kill(1, sig))
    outcomes: dict[str, list[int]] = answer["outcomes"]
    assert set(outcomes) <= {"written", "not_written", "unknown"}, "each has an outcome after close"
    assert sum(map(len, outcomes.values())) == answer["accepted"]
    if sig == signal.SIGSTOP:
        lonely.kill(1, signal.SIGCONT)
    else:
        lonely.start(1)
    found = [index_of(value) for value in values(lonely, topic) if value is not None]
    assert found == sorted(set(found)), "each once and in order"
    there = set(found)
    written, unwritten = set(outcomes.get("written", ())), set(outcomes.get("not_written", ()))
    print({name: len(rows) for name, rows in outcomes.items()}, len(there & set(outcomes.get("unknown", ()))))
    assert written <= there
    assert written
    assert unwritten
    assert not unwritten & there
