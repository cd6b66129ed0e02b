"""Writes down every offset and a checksum of every value. The environment says what to read, and how slowly."""

from __future__ import annotations

import os
import threading
import time
import zlib

import grete
from tests.integration.apps import app_log

# Simulated work per batch, in seconds: without any, a test's records are through before it can interfere.
WORK = float(os.environ.get("RECORDER_WORK", "0"))
# After so many records each batch takes a second, so that something is left for a stop in the middle; 0: never.
SLOW_AFTER = int(os.environ.get("RECORDER_SLOW_AFTER", "0"))
PROTOCOL = os.environ.get("RECORDER_PROTOCOL", "classic")
OF_GROUP = {
    "group.protocol": PROTOCOL,
    "session.timeout.ms": os.environ.get("RECORDER_SESSION_MS", "6000"),
    "heartbeat.interval.ms": "" if PROTOCOL == "consumer" else os.environ.get("RECORDER_HEARTBEAT_MS", "500"),
    "partition.assignment.strategy": "",
    "group.remote.assignor": "",
}
if PROTOCOL == "consumer":
    OF_GROUP["group.remote.assignor"] = os.environ.get("RECORDER_ASSIGNOR", "")
else:
    OF_GROUP["partition.assignment.strategy"] = os.environ.get("RECORDER_ASSIGNOR", "cooperative-sticky")
if PROTOCOL == "auto" and OF_GROUP["session.timeout.ms"]:
    OF_GROUP["group.remote.assignor"] = "uniform"  # the settings are for either protocol
KAFKA = {
    "bootstrap.servers": os.environ["RECORDER_SERVERS"],
    "auto.commit.interval.ms": os.environ.get("RECORDER_COMMIT_MS", "1000"),
    "group.instance.id": os.environ.get("RECORDER_INSTANCE", ""),
    "metadata.max.age.ms": os.environ.get("RECORDER_METADATA_MS", "300000"),
    "isolation.level": os.environ.get("RECORDER_ISOLATION", "read_uncommitted"),
    **{name: value for name, value in OF_GROUP.items() if value},  # "": left out
}

app = grete.App(
    os.environ["RECORDER_GROUP"],
    kafka=KAFKA,
    workers=int(os.environ.get("RECORDER_WORKERS", "3")),
    shutdown_timeout=os.environ.get("RECORDER_SHUTDOWN_TIMEOUT", "30s"),
)

_done = [0]
_lock = threading.Lock()


@app.consumer(os.environ["RECORDER_TOPIC"], max_messages=int(os.environ.get("RECORDER_MAX_MESSAGES", "500")))
class Recorder(grete.Consumer):
    """Logs the start of each job before it works, and what it has read when it is done."""

    def consume(self) -> None:
        messages = self.messages
        app_log.write("begin", partition=self.partition, first=messages.first_offset)
        crc = 0
        for value in messages.values():
            crc = zlib.crc32(value or b"", crc)
        with _lock:
            _done[0] += len(messages)
            slow = 0 < SLOW_AFTER < _done[0]
        if slow or WORK:
            time.sleep(1.0 if slow else WORK)
        app_log.write("batch", partition=self.partition, runs=app_log.runs(messages.offsets), crc=crc)

    def revoked(self) -> None:
        app_log.write("revoked", partition=self.partition, lost=self.lost)

    def shutdown(self) -> None:
        app_log.write("shutdown", partition=self.partition)
