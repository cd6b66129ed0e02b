"""What is imported before the fork is all that a run imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: this one has imported everything.
RUN = """
import sys
import grete
from grete._swarm import supervisor
from grete._swarm.preflight import preload

app = grete.App("imports", kafka={"bootstrap.servers": "127.0.0.1:1"}, loop=sys.argv[1])

@app.consumer("plain")
def plain(messages):
    pass

if sys.argv[2] == "async":
    @app.consumer("other")
    async def other(messages):
        pass

if sys.argv[2] == "hooks":
    app.on_startup(lambda: None)

if sys.argv[2] == "async hooks":
    @app.on_shutdown
    async def close():
        pass

    @app.consumer("other")
    async def other(messages):
        pass

preload.preimport(app.routes, sys.argv[1], app._lifecycle)
before = set(sys.modules)
with app.running():
    pass
print(*sorted(set(sys.modules) - before - {"grete._processing.background_run"}))
print(*sorted({"asyncio", "uvloop"} & before))
"""


@pytest.mark.parametrize(
    ("loop", "kind", "loaded"),
    [
        ("auto", "plain", ""),
        ("asyncio", "async", "asyncio"),
        ("auto", "async", "asyncio uvloop"),
        ("auto", "hooks", "asyncio"),
        ("auto", "async hooks", "asyncio uvloop"),
    ],
)
def test_a_run_imports_nothing_that_was_not_there_before_the_fork(loop: str, kind: str, loaded: str) -> None:
    pytest.importorskip("uvloop")
    words = [sys.executable, "-c", RUN, loop, kind]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    later, before = done.stdout.splitlines()
    assert later == ""
    assert before == loaded
