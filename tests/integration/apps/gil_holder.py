"""Holds the GIL in a C call for GRIPPING_SECONDS, with the first batch that it gets."""

from __future__ import annotations

import ctypes
import os

import grete
from tests.integration.apps import app_log

SECONDS = float(os.environ["GRIPPING_SECONDS"])
# Unlike CDLL, it keeps the GIL.
HOLDING = ctypes.PyDLL(None)

app = grete.App(
    os.environ["GRIPPING_GROUP"],
    kafka={"bootstrap.servers": os.environ["GRIPPING_SERVERS"], "auto.commit.interval.ms": 200},
    handler_timeout="1s",
    swarm={"gil_timeout": "2s"},
)
# The port is the system's choice, and the test's to know.
app.monitor.subscribe("app.probes", lambda event: app_log.write("probes", address=event["addresses"][0]))


@app.consumer(os.environ["GRIPPING_TOPIC"])
class Gripping(grete.Consumer):
    """Its first batch is a long one."""

    held = False

    def consume(self) -> None:
        if not Gripping.held:
            Gripping.held = True
            app_log.write("holds", partition=self.partition)
            HOLDING.usleep(int(SECONDS * 1_000_000))
            app_log.write("lets go")
