"""Traces its jobs: one handler of batches, one of single records. For `grete swarm`."""

from __future__ import annotations

import os

import grete
from grete.instrumentation.datadog import Tracer

tracer = Tracer("orders", env="test", agent=os.environ["TRACED_AGENT"], messages=True)
app = grete.App(
    os.environ["TRACED_TOPIC"],
    kafka={"bootstrap.servers": os.environ["TRACED_SERVERS"], "session.timeout.ms": 3000, "heartbeat.interval.ms": 300},
    workers=2,
)
app.monitor.subscribe(tracer)


@app.consumer(os.environ["TRACED_TOPIC"])
def book(message: grete.Message) -> None:
    """One step of its own for each record."""
    with tracer.start("db.insert"):
        assert message.value is not None
