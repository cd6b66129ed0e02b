"""Writes what it reads to another topic, and leaves it to the stop to deliver it: nothing goes out before by itself."""

from __future__ import annotations

import os
import threading

import grete
from tests.integration.apps import app_log

app = grete.App(
    os.environ["FORWARDER_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["FORWARDER_SERVERS"],
        "linger.ms": 60_000,
        "batch.size": 16_000_000,
        "compression.type": "lz4",
        # Nothing is committed by the clock: what is committed, the stop has committed.
        "auto.commit.interval.ms": 3_600_000,
    },
    shutdown_timeout=os.environ["FORWARDER_PATIENCE"],
)


@app.consumer(os.environ["FORWARDER_FROM"])
class Forwarder(grete.Consumer):
    """Logs what it has handed to the producer."""

    def consume(self) -> None:
        self.producer.produce_many(os.environ["FORWARDER_TO"], self.messages)
        threads = [thread.name for thread in threading.enumerate()]
        app_log.write("forwarded", count=len(self.messages), partition=self.partition, threads=threads)
