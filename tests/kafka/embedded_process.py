"""The process of embedded brokers: a JSON line with its error or null for each command on standard input."""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from types import FrameType


def main() -> int:
    from grete import _native
    from grete.errors import GreteError

    signal.signal(signal.SIGTERM, _end)
    options = json.loads(sys.argv[1])
    options["settings"] = list(options["settings"].items())
    broker = _native.EmbeddedBroker(topics=[], log_to_stderr=True, **options)
    _answer(None)
    pending = b""
    while True:
        ready, _, _ = select.select([0, broker.end_fd()], [], [])
        if 0 not in ready:
            return 1
        data = os.read(0, 65536)
        if not data:
            return 0
        *lines, pending = (pending + data).split(b"\n")
        for line in lines:
            command, arguments = json.loads(line)
            try:
                broker.call(command, **arguments)
            except (GreteError, ValueError) as error:
                _answer(str(error))
            else:
                _answer(None)


def _answer(error: str | None) -> None:
    os.write(1, json.dumps(error).encode() + b"\n")


def _end(_number: int, _frame: FrameType | None) -> None:
    # The brokers stop with the object.
    sys.exit(0)


if __name__ == "__main__":
    sys.exit(main())
