"""A swarm's worker: writes down what it reads as `recorder` does, and harms its node on request: see `harm`.

The environment says what to read. `SWARM_KAFKA`, `SWARM_APP` and `SWARM_ROUTE` are settings in JSON.
"""

from __future__ import annotations

import json
import logging
import os
import time
import zlib

import grete
from tests.integration.apps import app_log, fault_handler
from tests.integration.apps.eventlog import EventLog

# Simulated work per batch, in seconds.
WORK = float(os.environ.get("SWARM_WORK", "0.005"))

logging.getLogger("grete").addHandler(EventLog())


def settings(name: str) -> dict[str, object]:
    """What the environment says, or nothing."""
    found: dict[str, object] = json.loads(os.environ.get(f"SWARM_{name}", "{}"))
    return found


app = grete.App(
    os.environ["SWARM_GROUP"],
    kafka={"bootstrap.servers": os.environ["SWARM_SERVERS"], **settings("KAFKA")},
    **settings("APP"),  # type: ignore[arg-type]
)
# Made before the fork, by `warm_up`: every node finds it.
warm: dict[str, int] = {}


@app.preload
def warm_up() -> None:
    """Runs once, in the supervisor."""
    warm["pid"] = os.getpid()
    app_log.write("preload")


class Worker(grete.Consumer):
    """Logs the start of each job before it works, and what it has read when it is done."""

    def initialize(self) -> None:
        app_log.write("initialize", topic=self.topic, partition=self.partition, node=app.node, warm=warm.get("pid"))

    def consume(self) -> None:
        messages = self.messages
        app_log.write("begin", partition=self.partition, first=messages.first_offset)
        fault_handler.obey(app.node)
        crc = 0
        for value in messages.values():
            crc = zlib.crc32(value or b"", crc)
        if WORK:
            time.sleep(WORK)
        app_log.write("batch", partition=self.partition, runs=app_log.runs(messages.offsets), crc=crc)

    def revoked(self) -> None:
        app_log.write("revoked", partition=self.partition, lost=self.lost)

    def shutdown(self) -> None:
        app_log.write("shutdown", partition=self.partition)


# As an App that dies with each node's first steps.
if os.environ.get("SWARM_CRASH"):
    os.register_at_fork(after_in_child=lambda: os._exit(9))

for name in os.environ["SWARM_TOPIC"].split():
    app.consumer(name, **settings("ROUTE"))(Worker)  # type: ignore[arg-type]
