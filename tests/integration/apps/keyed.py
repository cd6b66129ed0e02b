"""Keys side by side, 1 ms of waiting for each record: notes when each begins and ends.

A process that will be killed gets a limit: it begins so many records, and a worker that takes the next one waits for
the kill. One record may be held from early on: the committed offset stays in front of it.
"""

from __future__ import annotations

import itertools
import os
import threading
import time
from pathlib import Path

import grete

OFFSET_MAP = bool(os.environ.get("KEYED_OFFSET_MAP"))
KAFKA = {
    "bootstrap.servers": os.environ["KEYED_SERVERS"],
    "auto.commit.interval.ms": os.environ["KEYED_COMMIT_MS"],
    "group.instance.id": os.environ["KEYED_INSTANCE"],
}
# By the number of the record among those that this process begins, from 1; 0: none.
HELD = int(os.environ["KEYED_HELD"])
LIMIT = int(os.environ["KEYED_LIMIT"])
NUMBERS = itertools.count(1)
# Each note is one write to a file opened with O_APPEND: what was written before a SIGKILL stays, in order.
FILE = os.open(
    Path(os.environ["SEEN_DIRECTORY"]) / f"{os.getpid()}.notes", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644
)

app = grete.App(os.environ["KEYED_GROUP"], kafka=KAFKA, workers=int(os.environ["KEYED_WORKERS"]))


@app.consumer(
    os.environ["KEYED_TOPIC"],
    concurrency="key",
    max_messages=int(os.environ["KEYED_MAX_MESSAGES"]),
    max_in_flight=int(os.environ["KEYED_MAX_IN_FLIGHT"]),
    offset_map=OFFSET_MAP,
)
def work(message: grete.Message) -> None:
    """Waits as for I/O."""
    number = next(NUMBERS)
    os.write(FILE, b"+%d\n" % message.offset)
    if number == HELD or 0 < LIMIT < number:
        threading.Event().wait()
    time.sleep(0.001)
    os.write(FILE, b"-%d\n" % message.offset)
