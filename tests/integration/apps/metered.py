"""App that moves every metric: forwards what it reads, fails at marked records, retries them, and gives them up.

In a swarm it harms its node on request: see `harm`.
"""

from __future__ import annotations

import logging
import os

import grete
from tests.integration.apps import fault_handler
from tests.integration.apps.eventlog import EventLog

logging.getLogger("grete").addHandler(EventLog())

app = grete.App(
    os.environ["METERED_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["METERED_SERVERS"],
        "auto.commit.interval.ms": 200,
        # Who is killed and comes back finds its place at once.
        "group.instance.id": "metered-{hostname}",
        "session.timeout.ms": 20_000,
    },
    workers=2,
    shutdown_timeout="5s",
)


@app.consumer(
    os.environ["METERED_TOPIC"],
    retry=grete.Retry(attempts=2, backoff="10ms..10ms"),
    dead_letter=os.environ["METERED_DEAD"],
    max_age="1h",
    max_messages=50,
)
class Metered(grete.Consumer):
    """Of the value "bad" it says so. On the event loop, which is measured, too."""

    async def consume(self) -> None:
        fault_handler.obey(app.node)
        for message in self.messages:
            if message.value == b"bad":
                raise ValueError("this one is bad")
            self.producer.produce(os.environ["METERED_TO"], message.value)
            self.mark(message)
