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


# Modules that take long to import, or that only some programs need.
HEAVY = frozenset(
    (
        *("asyncio", "click", "concurrent.futures", "dataclasses", "difflib", "email", "http", "inspect", "json"),
        *("logging", "multiprocessing", "pathlib", "re", "rich", "selectors", "socket", "ssl", "subprocess"),
        *("tempfile", "tomllib", "typing", "urllib.request"),
        *("grete._native", "grete.app", "grete.client", "grete._config", "grete.instrumentation"),
        *("msgspec", "pydantic", "pyarrow", "polars"),
    )
)
# click needs these.
OF_CLICK = {"click", "dataclasses", "inspect", "re", "typing", "pathlib", "grete._native"}


def imported_by(code: str) -> set[str]:
    script = f"import sys\ntry:\n    {code}\nfinally:\n    print(*sys.modules, file=sys.stderr)"
    # Without the site module, whose .pth files import what they like.
    paths = [path for path in sys.path if path]
    command = [sys.executable, "-S", "-c", f"import sys\nsys.path += {paths!r}\n{script}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    return set(done.stderr.split()) & HEAVY


def test_the_import_imports_nothing_that_takes_long() -> None:
    assert imported_by("import grete") == set()


def test_the_help_imports_nothing_that_takes_long_besides_click() -> None:
    code = "from grete import _cli; _cli.main(['--help'], prog_name='grete', standalone_mode=False)"
    assert imported_by(code) - OF_CLICK == set()


def test_a_client_and_an_app_do_without_asyncio_and_the_command_line() -> None:
    code = "import grete.client; grete.App('a'); grete.Retry()"
    assert imported_by(code) & {"asyncio", "click", "rich", "ssl", "socket", "multiprocessing", "difflib"} == set()
