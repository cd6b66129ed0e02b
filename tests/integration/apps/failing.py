"""Fails on its first runs in partition 0, after it has marked a part of the batch; partition 1 works throughout.

The attempt that does not fail waits for the other partition, so it never ends if that waits for this one.
"""

from __future__ import annotations

import os
import threading

import grete
from tests.integration.apps import app_log

FAILURES = int(os.environ.get("FAILING_TIMES", "3"))
BAD_OFFSET = int(os.environ.get("FAILING_OFFSET", "60"))
OTHER_IS_DONE = threading.Event()

app = grete.App(
    os.environ["FAILING_GROUP"],
    kafka={"bootstrap.servers": os.environ["FAILING_SERVERS"], "auto.commit.interval.ms": 200},
    workers=2,
)


@app.consumer(os.environ["FAILING_TOPIC"], max_messages=1000)
class Failing(grete.Consumer):
    """Marks up to ten records before the bad one, then raises."""

    def consume(self) -> None:
        app_log.write("run", partition=self.partition, attempt=self.attempt, runs=app_log.runs(self.messages.offsets))
        if self.partition == 0 and self.attempt > FAILURES:
            OTHER_IS_DONE.wait()
        for message in self.messages:
            if self.partition == 0 and message.offset == BAD_OFFSET and self.attempt <= FAILURES:
                raise ValueError(f"attempt {self.attempt} does not like offset {message.offset}")
            if message.offset < BAD_OFFSET - 10:
                self.mark(message)
        app_log.write("done", partition=self.partition, runs=app_log.runs(self.messages.offsets))
        if self.partition == 1:
            OTHER_IS_DONE.set()
