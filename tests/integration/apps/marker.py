"""Marks every record of a batch but those with the offsets in MARKER_OPEN; nothing else counts as processed."""

from __future__ import annotations

import os

import grete
from tests.integration.apps import app_log

OPEN = {int(offset) for offset in os.environ.get("MARKER_OPEN", "").split()}

app = grete.App(
    os.environ["MARKER_GROUP"],
    kafka={"bootstrap.servers": os.environ["MARKER_SERVERS"], "auto.commit.interval.ms": 200},
    workers=1,
)


@app.consumer(os.environ["MARKER_TOPIC"], offsets="manual", offset_map=True)
class Marker(grete.Consumer):
    """Leaves some records open."""

    def consume(self) -> None:
        app_log.write("run", partition=self.partition, runs=app_log.runs(self.messages.offsets))
        for message in self.messages:
            if message.offset not in OPEN:
                self.mark(message)
