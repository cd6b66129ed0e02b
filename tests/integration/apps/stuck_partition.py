"""A handler that never comes back, beside handlers that work. The environment says how the one on partition 0 is stuck.

`BESIDE_HOW`: sleep (it gives the GIL away), gil (a C function keeps it), regex (so does a pattern that never ends),
await (a task on the event loop), or no (then partition 0 is worked on like the others).
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import re
import threading
import time

import grete
from tests.integration.apps import app_log

HOW = os.environ["BESIDE_HOW"]
# Each record is written there, too, if it is set.
OUT = os.environ["BESIDE_OUT"]
# Slices that the others finish before the stuck one gets stuck: with undelivered outputs, those of one job.
HEAD_START = 5 if OUT else 40

app = grete.App(
    os.environ["BESIDE_GROUP"],
    # Nothing is committed by the clock: what is committed, the stop has committed.
    kafka={"bootstrap.servers": os.environ["BESIDE_SERVERS"], "auto.commit.interval.ms": 3_600_000},
    workers=4,
    shutdown_timeout="4s",
)

_finished = threading.Semaphore(0)
# From now on the others are slow: so there is work left when the stop comes, however late.
_stuck = threading.Event()


def get_stuck() -> None:
    """Never returns."""
    for _ in range(HEAD_START):
        _finished.acquire()
    _stuck.set()
    app_log.write("stuck")
    if HOW == "gil":
        ctypes.PyDLL(None).sleep(600)  # PyDLL keeps the GIL for the length of the call
    elif HOW == "regex":
        re.match("(a+)+$", "a" * 64 + "b")
    else:
        time.sleep(600)


class Beside(grete.Consumer):
    """Says of each slice that it is done, marks it, and says that, too."""

    def consume(self) -> None:
        if self.partition == 0 and HOW != "no":
            get_stuck()
        for start in range(0, len(self.messages), 10):
            part = self.messages[start : start + 10]
            time.sleep(0.05 if _stuck.is_set() else 0.002)
            if OUT:
                self.producer.produce_many(OUT, part)
            app_log.write("did", partition=self.partition, runs=app_log.runs(part.offsets))
            self.mark(part)
            app_log.write("marked", partition=self.partition, runs=app_log.runs(part.offsets))
            _finished.release()


class BesideLoop(Beside):
    """The same on the event loop; there it is the task that gets stuck."""

    async def consume(self) -> None:  # type: ignore[override]
        if self.partition == 0:
            await get_stuck_in_await()
        super().consume()


async def get_stuck_in_await() -> None:
    """Never returns, and holds up no other task."""
    for _ in range(HEAD_START):
        while not _finished.acquire(blocking=False):  # noqa: ASYNC110 (what it waits for happens in this very loop)
            await asyncio.sleep(0)
    _stuck.set()
    app_log.write("stuck")
    await asyncio.Event().wait()


app.consumer(os.environ["BESIDE_TOPIC"], max_messages=50)(BesideLoop if HOW == "await" else Beside)
