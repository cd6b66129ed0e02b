"""What an app under test has seen, as JSON lines in one file per process.

Each line is one `write` to a file opened with O_APPEND: what was written before a SIGKILL stays.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

_file: tuple[int, int] | None = None


def write(event: str, **fields: object) -> None:
    """One line; `at` is the monotonic clock in ns, which all processes of a machine share."""
    global _file
    if _file is None or _file[0] != os.getpid():  # a forked child has a file of its own
        path = Path(os.environ["SEEN_DIRECTORY"]) / f"{os.getpid()}.jsonl"
        _file = os.getpid(), os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    line = json.dumps({"event": event, "at": time.monotonic_ns(), **fields}, separators=(",", ":"))
    os.write(_file[1], line.encode() + b"\n")


def runs(offsets: memoryview | list[int]) -> list[list[int]]:
    """Offsets as [first, last] pairs of consecutive ones, in the order given."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    return found
