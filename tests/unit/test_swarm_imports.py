"""What is imported before the fork is all that a run imports."""

from __future__ import annotations

import subprocess
import sys

import pytest

# In a process of its own: this one has imported everything.
RUN = """
import sys
import grete
from grete.swarm import imports, supervisor

app = grete.App("imports", kafka={"bootstrap.servers": "127.0.0.1:1"}, loop=sys.argv[1])

@app.consumer("plain")
def plain(messages):
    pass

if sys.argv[2] == "async":
    @app.consumer("other")
    async def other(messages):
        pass

imports.ahead(app.routes, sys.argv[1])
before = set(sys.modules)
with app.running():
    pass
print(*sorted(set(sys.modules) - before - {"grete.processing.embedded"}))
print(*sorted({"asyncio", "uvloop"} & before))
"""


@pytest.mark.parametrize(
    ("loop", "kind", "loaded"),
    [("auto", "plain", ""), ("asyncio", "async", "asyncio"), ("auto", "async", "asyncio uvloop")],
)
def test_a_run_imports_nothing_that_was_not_there_before_the_fork(loop: str, kind: str, loaded: str) -> None:
    pytest.importorskip("uvloop")
    words = [sys.executable, "-c", RUN, loop, kind]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    later, before = done.stdout.splitlines()
    assert later == ""
    assert before == loaded
