"""At most once: dies in its first call, or goes on."""

from __future__ import annotations

import os

import grete
from tests.integration.apps import app_log

app = grete.App(
    os.environ["ONCE_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["ONCE_SERVERS"],
        "auto.commit.interval.ms": 60_000,
        # How long the next process waits for the partition of one that died.
        "session.timeout.ms": 1000,
        "heartbeat.interval.ms": 300,
    },
    workers=1,
)


@app.consumer(os.environ["ONCE_TOPIC"], max_messages=10, offsets="at_most_once", retry=grete.Retry(attempts=1))
def once(messages: grete.Messages) -> None:
    """Notes what it gets."""
    app_log.write("run", runs=app_log.runs(messages.offsets))
    if os.environ["ONCE_DIES"] == "1":
        os._exit(9)
