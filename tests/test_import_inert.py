"""Importing Grete, and declaring an App, starts nothing."""

from __future__ import annotations

import json
import subprocess
import sys

SCRIPT = """
import json, os, sys
def state():
    return sorted(os.listdir("/proc/self/task")), sorted(os.readlink(f"/proc/self/fd/{fd}") for fd in open_fds())
def open_fds():
    found = []
    for fd in os.listdir("/proc/self/fd"):
        try:
            os.readlink(f"/proc/self/fd/{fd}")
        except OSError:
            continue  # the one of listdir itself
        found.append(fd)
    return found
before = state()
import signal
handlers = {s: signal.getsignal(s) for s in (signal.SIGINT, signal.SIGTERM)}
import grete, grete.client
app = grete.App("inert", kafka={"bootstrap.servers": "127.0.0.1:1"}, workers=5)
@app.consumer("orders", max_messages=10)
class Orders(grete.Consumer):
    def consume(self): pass
@app.consumer("clicks")
def clicks(messages: grete.Messages): pass
after = state()
import threading
print(json.dumps({
    "same": before == after,
    "before": before, "after": after,
    "threads": threading.active_count(),
    "signals": handlers == {s: signal.getsignal(s) for s in handlers},
    "modules": sorted(name for name in sys.modules if name.split(".")[0] in ("click", "asyncio", "polars", "pyarrow")),
}))
"""


def test_import_and_declaration_are_inert() -> None:
    done = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=True, timeout=60)
    facts = json.loads(done.stdout)
    assert facts["same"], facts
    assert facts["threads"] == 1
    assert facts["signals"]
    assert facts["modules"] == [], "what only the CLI or an extra needs is imported there"
