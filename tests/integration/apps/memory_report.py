"""Three kinds of consumers, and on the record "report" a note of what there is of everything in this process."""

from __future__ import annotations

import gc
import os
import threading
import weakref

import grete
from tests.integration.apps import app_log

app = grete.App(
    os.environ["WATCHED_GROUP"],
    kafka={
        "bootstrap.servers": os.environ["WATCHED_SERVERS"],
        "auto.commit.interval.ms": 100,
        "heartbeat.interval.ms": 50,
    },
    workers=4,
)
instances: weakref.WeakSet[grete.Consumer] = weakref.WeakSet()
topics = os.environ["WATCHED_TOPICS"].split()
LEAKS = bool(os.environ.get("WATCHED_LEAKS"))


def never() -> None:
    """Waits forever."""
    threading.Event().wait()


class Watched(grete.Consumer):
    """Has work in the background, which ends as it should."""

    def initialize(self) -> None:
        instances.add(self)
        self.background(self.beside)
        if LEAKS:
            threading.Thread(target=never, name="forgotten", daemon=True).start()  # leaks

    def beside(self) -> None:
        """Until the partition goes."""
        self.stopping.wait()

    def consume(self) -> None:
        note(self.messages)


class WatchedAsync(grete.Consumer):
    """The same on the loop."""

    async def initialize(self) -> None:
        instances.add(self)

    async def consume(self) -> None:
        note(self.messages)


def note(messages: grete.Messages) -> None:
    """What it has read, and the report that is asked for."""
    app_log.write("read", topic=messages.topic, partition=messages.partition, offsets=list(messages.offsets))
    if b"report" in messages.values():
        gc.collect()
        stats = app.statistics()
        kept = {name: stats[name] for name in ("instances", "background", "workers")}
        app_log.write("report", lanes=len(stats["lanes"]), alive=len(instances), **kept)


app.consumer(topics[0])(Watched)
app.consumer(topics[1], concurrency="key")(Watched)
app.consumer(topics[2])(WatchedAsync)
