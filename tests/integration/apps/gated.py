"""Notes records; with GATED_GATE, a FIFO, the first handlers wait until a test has opened it for writing."""

from __future__ import annotations

import os

import grete
from tests.integration.apps import app_log
from tests.kafka.waiting import eventually

GATE = os.environ.get("GATED_GATE")
WORKERS = 2
at_the_gate: list[int] = []

app = grete.App(
    os.environ["GATED_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["GATED_SERVERS"],
        "auto.commit.interval.ms": 100,
        "session.timeout.ms": 1500,
        "heartbeat.interval.ms": 300,
    },
    workers=WORKERS,
)


def others_wait() -> bool:
    """Whether there is something to do for a worker that comes back."""
    lanes = app.statistics()["lanes"]
    waiting = [lane for lane in lanes if lane["queued_bytes"] > 0]
    return len(waiting) >= len(lanes) - WORKERS > 0


@app.consumer(os.environ["GATED_TOPIC"], max_messages=10)
class Gated(grete.Consumer):
    """Notes what it begins."""

    def consume(self) -> None:
        app_log.write("begin", partition=self.partition, offsets=list(self.messages.offsets))
        if GATE is not None and len(at_the_gate) < WORKERS:
            at_the_gate.append(self.partition)
            eventually(others_wait, 30.0, "records of the other partitions")
            app_log.write("ready", partition=self.partition)
            os.close(os.open(GATE, os.O_RDONLY))
            app_log.write("through", partition=self.partition)
