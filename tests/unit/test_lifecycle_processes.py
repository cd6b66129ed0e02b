"""Hooks of the start and the stop in processes: `grete run`, the nodes of a swarm, an interpreter that ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

pytestmark = pytest.mark.usefixtures("empty_directory")


PROGRAM = """
import asyncio, os, sys, threading
import grete

app = grete.App("program", kafka={"bootstrap.servers": "127.0.0.1:1"}, shutdown_timeout=SECONDS)

def say(text):
    os.write(1, f"{os.getpid()} {text}\\n".encode())

@app.consumer("orders")
async def handle(message: grete.Message) -> None:
    pass

@app.preload
def preload():
    app.state.shared = os.getpid()
    say("preload")

@app.on_startup
async def connect():
    app.state.own = os.getpid()
    say(f"startup {app.state.shared}")

@app.on_shutdown
def close():
    say(f"shutdown {app.state.own}")
    HANG
"""


def program(directory: Path, *, seconds: float = 30.0, hang: str = "") -> None:
    text = PROGRAM.replace("SECONDS", str(seconds)).replace("HANG", hang)
    (directory / "program.py").write_text(text)


def spawn(directory: Path, *words: str) -> subprocess.Popen[str]:
    python_path = os.pathsep.join([str(directory), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.Popen(
        [sys.executable, "-m", "grete", *words],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": python_path},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def until(process: subprocess.Popen[str], text: str, times: int = 1) -> list[str]:
    """Lines up to the one that has the text for the last time."""
    lines: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line.strip())
        times -= text in line
        if not times:
            return lines
    raise AssertionError(f"{lines} {process.stderr.read() if process.stderr else ''}")


def test_grete_run_runs_hooks_until_sigterm(tmp_path: Path) -> None:
    program(tmp_path)
    with spawn(tmp_path, "run", "program:app") as process:
        until(process, "startup")
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"{process.pid} shutdown {process.pid}" in out


def test_a_failed_start_is_an_error_with_file_and_line(tmp_path: Path) -> None:
    program(tmp_path)
    source = (tmp_path / "program.py").read_text().replace("    app.state.own = os.getpid()", "    1 / 0")
    (tmp_path / "program.py").write_text(source)
    with spawn(tmp_path, "run", "program:app") as process:
        _, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "Error: on_startup connect (program.py:" in err
    assert "ZeroDivisionError" in err
    assert "Traceback" not in err


def test_a_hook_that_hangs_forces_the_stop(tmp_path: Path) -> None:
    program(tmp_path, seconds=1.0, hang="threading.Event().wait()")
    with spawn(tmp_path, "run", "program:app") as process:
        until(process, "startup")
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 2, err
    assert "on_shutdown close (program.py:" in err
    assert "threading.Event().wait()" in err, "the stack says where"


def test_each_node_of_a_swarm_runs_the_hooks_after_the_fork(tmp_path: Path) -> None:
    program(tmp_path)
    with spawn(tmp_path, "swarm", "program:app", "--nodes", "2", "--control", "none") as process:
        lines = until(process, "startup", times=2)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert [line for line in lines if "preload" in line] == [f"{process.pid} preload"]
    nodes = {line.split()[0] for line in lines if "startup" in line}
    assert len(nodes) == 2
    assert str(process.pid) not in nodes
    assert {line for line in lines if "startup" in line} == {f"{node} startup {process.pid}" for node in nodes}
    assert set(out.splitlines()) == {f"{node} shutdown {node}" for node in nodes}


def test_plain_hooks_start_no_event_loop(tmp_path: Path) -> None:
    script = """
    import threading
    import grete
    app = grete.App("plain", kafka={"bootstrap.servers": "127.0.0.1:1"})
    app.consumer("orders")(lambda messages: None)
    app.on_startup(lambda: None)
    app.on_shutdown(lambda: None)
    with app.running():
        print(sorted(thread.name for thread in threading.enumerate() if "loop" in thread.name))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("[]\n", 0), done.stderr


def test_an_interpreter_that_ends_runs_the_hooks_of_an_app_that_still_runs(tmp_path: Path) -> None:
    script = """
    import grete
    app = grete.App("left", kafka={"bootstrap.servers": "127.0.0.1:1"})
    app.consumer("orders")(lambda messages: None)

    @app.on_shutdown
    async def close():
        print("closed", flush=True)

    app.start()
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script)], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.returncode) == ("closed\n", 0), done.stderr
