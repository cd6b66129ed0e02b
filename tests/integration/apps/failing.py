"""Fails on its first runs in partition 0, after it has marked a part of the batch; partition 1 works throughout."""

from __future__ import annotations

import os

import grete
from tests.integration.apps import log

FAILURES = int(os.environ.get("FAILING_TIMES", "3"))
BAD_OFFSET = int(os.environ.get("FAILING_OFFSET", "60"))

app = grete.App(
    os.environ["FAILING_GROUP"],
    kafka={"bootstrap.servers": os.environ["FAILING_SERVERS"], "auto.commit.interval.ms": 200},
    workers=2,
)


@app.consumer(os.environ["FAILING_TOPIC"], max_messages=1000)
class Failing(grete.Consumer):
    """Marks up to ten records before the bad one, then raises."""

    def consume(self) -> None:
        log.write("run", partition=self.partition, attempt=self.attempt, runs=log.runs(self.messages.offsets))
        for message in self.messages:
            if self.partition == 0 and message.offset == BAD_OFFSET and self.attempt <= FAILURES:
                raise ValueError(f"attempt {self.attempt} does not like offset {message.offset}")
            if message.offset < BAD_OFFSET - 10:
                self.mark(message)
        log.write("done", partition=self.partition, runs=log.runs(self.messages.offsets))
