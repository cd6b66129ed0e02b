"""An App that says when it was given its first record; a file `wedge-N` has it hold the GIL in node N for good."""

from __future__ import annotations

import ctypes
import threading
import time

import grete

from .setup import DIRECTORY, GROUP, SOON, TOPIC, note

app = grete.App(GROUP, kafka={**SOON, "group.instance.id": "bench"})
# Unlike CDLL, it calls with the GIL held.
_sleep = ctypes.PyDLL(None).sleep
_begun = threading.Event()


@app.consumer(TOPIC, max_messages=10)
def work(_message: grete.Message) -> None:
    """Takes its time, so that there is always a next record."""
    if not _begun.is_set():
        _begun.set()
        note("record", node=app.node)
    order = DIRECTORY / f"wedge-{app.node}"
    if order.exists():
        order.unlink()
        note("wedged", node=app.node)
        _sleep(3600)
    time.sleep(0.02)
