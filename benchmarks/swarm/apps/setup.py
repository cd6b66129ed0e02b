"""Setup that all Apps share: the address of Kafka, and notes of events for the driver.

`BENCH_SERVERS`, `BENCH_TOPIC` and `BENCH_GROUP` say what to read, `BENCH_DIRECTORY` is where the driver looks.
"""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path
from typing import Any

TOPIC, GROUP = os.environ["BENCH_TOPIC"], os.environ["BENCH_GROUP"]
DIRECTORY = Path(os.environ["BENCH_DIRECTORY"])
KAFKA: dict[str, Any] = {"bootstrap.servers": os.environ["BENCH_SERVERS"], "auto.offset.reset": "earliest"}
# Members hear of a rebalance with a heartbeat: so their partitions are shared out soon.
SOON: dict[str, Any] = {**KAFKA, "heartbeat.interval.ms": 300}
# One file for all processes of a fleet: a line is one write to its end, and so never mixed with another.
_notes = os.open(DIRECTORY / "notes", os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)


def note(event: str, at: float | None = None, **fields: object) -> None:
    """One line for the driver; `at` is in seconds since the epoch."""
    line = {**fields, "event": event, "at": time.time() if at is None else at, "by": os.getpid()}
    os.write(_notes, json.dumps(line, default=str).encode() + b"\n")


class _Notes(logging.Handler):
    """Notes each log event of Grete with all its fields."""

    def emit(self, record: logging.LogRecord) -> None:
        """Events only."""
        event = getattr(record, "event", None)
        if event is not None:
            wanted = ("node", "pid", "status", "reason", "seconds", "restart_in", "limit")
            note(event, record.created, **{name: getattr(record, name, None) for name in wanted})


logging.getLogger("grete").addHandler(_Notes())
