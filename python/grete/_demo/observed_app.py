"""The App of the demo with a listener: each failure is one line of JSON on standard output."""

import json
import os
import time

from grete._demo.app import app
from grete.instrumentation import Event

__all__ = ["app"]


class FailureLines:
    """Listener that runs in each node. A line is one write below PIPE_BUF, so that lines of nodes never mix."""

    def on_consumer_error(self, occurred: Event) -> None:
        """Writes which records have failed, at which attempt."""
        if "first_offset" not in occurred or "last_offset" not in occurred:
            return  # a failed hook, which has no records
        failure = {
            "at": time.monotonic(),  # one clock for all processes of a machine
            "partition": occurred["partition"],
            "first_offset": occurred["first_offset"],
            "last_offset": occurred["last_offset"],
            "attempt": occurred["attempt"],
            "error": type(occurred["error"]).__name__,
        }
        os.write(1, json.dumps(failure).encode() + b"\n")


app.monitor.subscribe(FailureLines())
