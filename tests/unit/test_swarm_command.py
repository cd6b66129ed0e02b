"""`grete swarm`: what it refuses before it forks anything. Each in a process of its own, as threads count."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.waiting import eventually

APP = """
import grete
app = grete.App("shop", kafka={"bootstrap.servers": "127.0.0.1:1"})
@app.consumer("orders")
def orders(messages): pass
"""


def swarm(directory: Path, source: str, *arguments: str, **environment: str) -> tuple[int, str]:
    """Exit status and output of `grete swarm shop`."""
    (directory / "shop.py").write_text(APP + source)
    command = [sys.executable, "-m", "grete", "swarm", "shop", "--control", "none", *arguments]
    done = subprocess.run(
        command, cwd=directory, env=os.environ | environment, capture_output=True, text=True, check=False, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("source", "arguments", "says"),
    [
        ("", ["--nodes", "0"], "swarm.nodes (from command line): it is a whole number from 1 up, not 0"),
        ("", ["--nodes", "many"], "whole number from 1 up"),
        ("", ["--max-rss", "10B"], "10 bytes is less than a Python process needs"),
        ("", ["--max-rss", "10"], 'swarm.max_rss (from command line): "10" has no unit'),
        (
            "ballast = []\n@app.preload\ndef load():\n    ballast.append(b'x' * (64 << 20))\n",
            ["--max-rss", "64MiB"],
            "swarm.max_rss (from command line) is 64 MiB, and the supervisor has ",
        ),
        ("", ["--cpus", "99999"], "swarm.cpus (from command line): CPU 99999 is not among those"),
        ("", ["--control", "/nowhere/x.sock"], "/nowhere"),
        ("", ["--probes", "x"], "swarm.probes (from command line): it is a port"),
        ("app = grete.App('empty', kafka={'bootstrap.servers': '127.0.0.1:1'})\n", [], 'App "empty" has no consumer'),
        (
            "@app.consumer('clicks', nodes=[4])\ndef clicks(messages): pass\n",
            ["--nodes", "2"],
            (
                "shop.py:6: consumer clicks: nodes=[4]: there is no node 4: swarm.nodes is 2 (from command line), "
                "which makes nodes 0 to 1"
            ),
        ),
        (
            (
                "import threading\ndef watch():\n    threading.Event().wait()\n"
                "threading.Thread(target=watch, name='watcher', daemon=True).start()\n"
            ),
            [],
            'cannot fork: thread "watcher" (watch, shop.py:7) runs, just now at shop.py:8: no thread survives a fork',
        ),
        (
            "producer = grete.client.Producer({'bootstrap.servers': '127.0.0.1:1'})\n",
            [],
            "cannot fork: grete.client.Producer is open, made at shop.py:6: its connections do not survive a fork",
        ),
        (
            "@app.preload\ndef load():\n    raise ValueError('no model')\n",
            [],
            (
                'Error: preload load (shop.py:6) failed:\n  File "{directory}/shop.py", line 8, in load\n'
                "    raise ValueError('no model')\nValueError: no model\n"
            ),
        ),
        ("import sys\n@app.preload\ndef load():\n    sys.exit(0)\n", [], "preload load (shop.py:7) called sys.exit(0)"),
        ("@app.preload\nasync def load(): pass\n", [], "Error: shop.py:6: preload load is async"),
        ("@app.preload()\ndef load(): pass\n", [], "missing 1 required positional argument"),
        (
            (
                "import threading\n@app.preload\ndef load():\n"
                "    threading.Thread(target=threading.Event().wait, name='left', daemon=True).start()\n"
            ),
            [],
            'cannot fork: thread "left" (Event.wait, ',
        ),
    ],
)
def test_what_is_wrong_is_refused_before_the_fork(tmp_path: Path, source: str, arguments: list[str], says: str) -> None:
    status, output = swarm(tmp_path, source, *arguments)
    assert status == 1
    assert says.format(directory=tmp_path) in output
    assert "swarm.starting" not in output
    assert "node-0" not in output


def test_the_environment_says_how_many(tmp_path: Path) -> None:
    status, output = swarm(tmp_path, "", GRETE_SWARM_NODES="-1")
    assert (status, "swarm.nodes (from environment variable GRETE_SWARM_NODES)" in output) == (1, True)
    status, output = swarm(tmp_path, "", GRETE_SWARM_NODE="2")
    assert (status, 'GRETE_SWARM_NODE: the swarm has no setting "node"; did you mean "nodes"?' in output) == (1, True)


def test_the_same_preload_fails_a_run_in_one_process(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP + "@app.preload\ndef load():\n    raise ValueError('no model')\n")
    done = subprocess.run(
        [sys.executable, "-m", "grete", "run", "shop"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "Error: preload load (shop.py:6) failed:\n" in done.stderr
    assert "Traceback" not in done.stderr


FILES = """
import sys
before, between = open("before.txt", "w"), open("between.txt", "wb")
@app.preload
def load():
    print("loaded once")
    before.write("before")
    between.write(b"be")
import grete._processing.runner
start = grete._processing.runner.Runner.start
def started(self):
    global own
    start(self)
    own = open(f"own-{app.node}.txt", "w")
    own.write("own")
    if app.node == 1:
        between.write(b"tween")
    sys.stdout.write("started\\n")  # in one piece, also where PYTHONUNBUFFERED has print write two
    open(f"started-{app.node}", "w").close()
grete._processing.runner.Runner.start = started
"""


def test_what_lies_in_buffers_is_written_once_and_by_whom_it_is_of(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(APP + FILES)
    command = [sys.executable, "-m", "grete", "swarm", "shop", "--control", "none", "--nodes", "2"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            both = [tmp_path / "started-0", tmp_path / "started-1"]
            eventually(lambda: all(path.exists() for path in both), 30.0, "both nodes")
            process.terminate()
            output, errors = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0, errors
    assert output == b"loaded once\n" + b"started\n" * 2
    assert (tmp_path / "before.txt").read_text() == "before"
    assert (tmp_path / "between.txt").read_text() == "between"
    assert [(tmp_path / f"own-{node}.txt").read_text() for node in range(2)] == ["own", "own"]
