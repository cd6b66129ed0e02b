"""Keys side by side, 1 ms of waiting for each record: notes when each begins and ends."""

from __future__ import annotations

import os
import time
from pathlib import Path

import grete

OFFSET_MAP = bool(os.environ.get("KEYED_OFFSET_MAP"))
KAFKA = {
    "bootstrap.servers": os.environ["KEYED_SERVERS"],
    "auto.commit.interval.ms": os.environ["KEYED_COMMIT_MS"],
    "session.timeout.ms": 1000,
    "heartbeat.interval.ms": 200,
}
# Each note is one write to a file opened with O_APPEND: what was written before a SIGKILL stays, in order.
FILE = os.open(
    Path(os.environ["SEEN_DIRECTORY"]) / f"{os.getpid()}.notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
)

app = grete.App(os.environ["KEYED_GROUP"], kafka=KAFKA, workers=10)


@app.consumer(
    os.environ["KEYED_TOPIC"],
    concurrency="key",
    max_in_flight=int(os.environ["KEYED_MAX_IN_FLIGHT"]),
    offset_map=OFFSET_MAP,
)
def work(message: grete.Message) -> None:
    """Waits as for I/O."""
    os.write(FILE, b"+%d\n" % message.offset)
    time.sleep(0.001)
    os.write(FILE, b"-%d\n" % message.offset)
