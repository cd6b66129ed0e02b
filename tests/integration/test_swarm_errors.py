"""What `grete swarm` refuses before it forks anything, and how it says so."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.integration.commands import GRETE
from tests.integration.swarm_process import BAD, SwarmRun


def refused(tmp_path: Path, how: str, *words: str, **environment: str) -> str:
    """Runs into the error; returns what it said."""
    env = {**os.environ, "BAD_HOW": how, "PYTHONUNBUFFERED": "1", **environment}
    command = [GRETE, "swarm", BAD, *words]
    done = subprocess.run(command, env=env, capture_output=True, text=True, check=False, timeout=60, cwd=Path.cwd())
    assert done.returncode == 1, done.stderr
    assert "node-" not in done.stderr, "nothing was forked"
    return done.stderr


@pytest.mark.parametrize("nodes", ["0", "-1", "two", "1000000"])
def test_a_number_of_nodes_that_is_none(tmp_path: Path, nodes: str) -> None:
    said = refused(tmp_path, "well", "--nodes", nodes)
    assert "nodes" in said
    assert "command line" in said
    assert "Traceback" not in said


def test_a_thread_at_import(tmp_path: Path) -> None:
    said = refused(tmp_path, "thread", "--nodes", "2")
    assert "refresher" in said
    assert "swarm_bad.py" in said, "where it was started"
    assert "initialize" in said or "handler" in said, "where it belongs instead"
    assert "Traceback" not in said


def test_a_client_at_import(tmp_path: Path) -> None:
    said = refused(tmp_path, "producer", "--nodes", "2")
    assert "Producer" in said
    assert "Traceback" not in said


def test_a_foreign_client_at_import(tmp_path: Path) -> None:
    said = refused(tmp_path, "confluent", "--nodes", "2")
    assert "confluent" in said or "librdkafka" in said
    assert "Traceback" not in said


def test_native_threads_are_a_warning(tmp_path: Path) -> None:
    environment = {"BAD_HOW": "numpy", "OPENBLAS_NUM_THREADS": "4"}
    with SwarmRun(BAD, tmp_path, environment, nodes=1) as run:
        run.until(lambda: "node-0" in run.output, 30.0, "it starts all the same")
        assert "OPENBLAS_NUM_THREADS" in run.output
        assert run.stop() in (0, 1), run.output


def test_a_preload_that_raises(tmp_path: Path) -> None:
    said = refused(tmp_path, "preload", "--nodes", "2")
    assert "load_model" in said
    assert "there is no model.bin" in said
    assert "swarm_bad.py" in said


def test_a_preload_that_starts_a_thread(tmp_path: Path) -> None:
    assert "refresher" in refused(tmp_path, "preload-thread", "--nodes", "2")


@pytest.mark.parametrize("place", ["nowhere/control.sock", "file/control.sock", "directory"])
def test_a_control_socket_that_cannot_be(tmp_path: Path, place: str) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "directory").mkdir()
    path = tmp_path / place
    said = refused(tmp_path, "well", "--nodes", "2", "--control", str(path))
    assert str(path) in said.replace("\n", "")
    assert "--control" in said or "control" in said
    assert "Traceback" not in said


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        said = refused(tmp_path, "well", "--nodes", "2", "--probes", f"127.0.0.1:{port}")
    assert str(port) in said
    assert "Traceback" not in said


def test_a_route_that_runs_nowhere(tmp_path: Path) -> None:
    said = refused(tmp_path, "pin", "--nodes", "2")
    assert "7" in said
    assert "orders" in said
    assert "Traceback" not in said
