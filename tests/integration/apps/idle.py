"""Has had something to do, and then waits: a route of each kind, and the producer that handlers share."""

from __future__ import annotations

import os

import grete
from tests.integration.apps import app_log

SERVERS, TOPIC = os.environ["IDLER_SERVERS"], os.environ["IDLER_TOPIC"]

# Brokers of tests ask members of the consumer protocol for three heartbeats a second.
app = grete.App("idler", kafka={"bootstrap.servers": SERVERS, "group.protocol": "classic"})


@app.consumer(TOPIC, group=f"{TOPIC}-threads", handler_timeout="60s")
class Threads(grete.Consumer):
    """Forwards what it reads."""

    def consume(self) -> None:
        self.producer.produce_many(f"{TOPIC}-out", self.messages).wait()
        app_log.write("done", route="threads", count=len(self.messages))


@app.consumer(TOPIC, group=f"{TOPIC}-loop", concurrency="key")
async def loop(messages: grete.Messages) -> None:
    """Reads."""
    app_log.write("done", route="loop", count=len(messages))
