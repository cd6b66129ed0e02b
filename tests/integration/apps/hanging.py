"""At most once: notes what it gets before it does anything else, and stays in the batch with HANGING_AT."""

from __future__ import annotations

import os
import threading

import grete
from tests.integration.apps import app_log

HANG = int(os.environ.get("HANGING_AT", "-1"))

app = grete.App(
    os.environ["HANGING_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["HANGING_SERVERS"],
        "session.timeout.ms": 1000,
        "heartbeat.interval.ms": 200,
    },
    workers=2,
)


@app.consumer(os.environ["HANGING_TOPIC"], offsets="at_most_once", max_messages=5)
class Hanging(grete.Consumer):
    """Notes batches."""

    def consume(self) -> None:
        app_log.write("begin", partition=self.partition, offsets=list(self.messages.offsets))
        if HANG in self.messages.offsets:
            threading.Event().wait()
