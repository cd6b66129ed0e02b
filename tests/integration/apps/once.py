"""At most once: notes each record before it does anything else; at ONCE_HANG it stays."""

from __future__ import annotations

import os
import threading

import grete
from tests.integration.apps import log

HANG = int(os.environ.get("ONCE_HANG", "-1"))

app = grete.App(
    os.environ["ONCE_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["ONCE_SERVERS"],
        "session.timeout.ms": 1000,
        "heartbeat.interval.ms": 200,
    },
    workers=2,
)


@app.consumer(os.environ["ONCE_TOPIC"], offsets="at_most_once", max_messages=5)
class Once(grete.Consumer):
    """Notes batches."""

    def consume(self) -> None:
        log.write("begin", partition=self.partition, offsets=list(self.messages.offsets))
        if HANG in self.messages.offsets:
            threading.Event().wait()
