"""Takes its time for each record, and writes down those that it is done with."""

from __future__ import annotations

import asyncio
import os
import threading

import grete
from tests.integration.apps import app_log

WORK = float(os.environ["SLOW_WORK"])

app = grete.App(
    os.environ["SLOW_GROUP"],
    # Only the stop commits.
    kafka={"bootstrap.servers": os.environ["SLOW_SERVERS"], "auto.commit.interval.ms": 600_000},
    workers=1,
    shutdown_timeout=os.environ["SLOW_PATIENCE"],
)
# Never set: what a handler waits for that does not come.
answer = threading.Event()


def _done(message: grete.Message) -> None:
    app_log.write("done", offset=message.offset)


if os.environ["SLOW_STYLE"] == "async":

    @app.consumer(os.environ["SLOW_TOPIC"], max_messages=500)
    async def slow_async(message: grete.Message) -> None:
        """On the event loop."""
        await asyncio.sleep(WORK)
        _done(message)

else:

    @app.consumer(os.environ["SLOW_TOPIC"], max_messages=500)
    def slow(message: grete.Message) -> None:
        """In a worker thread."""
        answer.wait(WORK)
        _done(message)
