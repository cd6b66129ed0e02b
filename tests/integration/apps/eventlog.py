"""What Grete logs, as JSON lines in one file for all processes of a run."""

from __future__ import annotations

import json
import logging
import os
import time
from pathlib import Path

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


class EventLog(logging.Handler):
    """Log records, each one `write` to SEEN_DIRECTORY/events.log, with all their fields; `by`: who wrote it."""

    def emit(self, record: logging.LogRecord) -> None:
        fields = {name: value for name, value in vars(record).items() if name not in _STANDARD}
        row = {"at": time.monotonic_ns(), "by": os.getpid(), "text": record.getMessage(), **fields}
        path = Path(os.environ["SEEN_DIRECTORY"]) / "events.log"
        file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        os.write(file, json.dumps(row, separators=(",", ":"), default=str).encode() + b"\n")
        os.close(file)
