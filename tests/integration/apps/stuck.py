"""A handler that does not come back: `STUCK_HOW` = sleep (without the GIL) or gil (holding it)."""

from __future__ import annotations

import ctypes
import os
import time

import grete
from tests.integration.apps import log

app = grete.App(
    os.environ["STUCK_GROUP"],
    kafka={"bootstrap.servers": os.environ["STUCK_SERVERS"]},
    workers=1,
    shutdown_timeout="2s",
)


@app.consumer(os.environ["STUCK_TOPIC"])
class Stuck(grete.Consumer):
    """Says that it starts, and then sits."""

    def consume(self) -> None:
        log.write("stuck", partition=self.partition)
        if os.environ["STUCK_HOW"] == "gil":
            # PyDLL keeps the GIL for the length of the call.
            ctypes.PyDLL(None).sleep(600)
        else:
            time.sleep(600)
