"""What the children of a process that runs an App have of it: neither its signals nor its descriptors."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import Any

import pytest

from tests.kafka.jars import ROOT

# Signals 32 and 33 are the C library's own; what started the tests may ignore them.
_OF_LIBC = 0b11 << 31


def play(scene: str, way: str = "run") -> dict[str, Any]:
    """What the scene says. No signal but the one of the `way` itself has reached the App."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-m", "tests.unit.parent_app", scene, way],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        # The system stops no process of an orphaned group, which this one may be in.
        process_group=0,
    )
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    assert "error" not in said, (said, done.stderr)
    assert said["heard"] == (["app.quiet"] if way == "run" else []), done.stderr
    assert "Exception ignored" not in done.stderr, done.stderr
    return said


@pytest.mark.parametrize("how", ["fork", "grandchild", "process", "preexec"])
def test_a_child_has_the_signal_actions_that_were_there_before_the_app(how: str) -> None:
    said = play(how)
    assert said["scene"]["actions"] == said["before"]["actions"]
    assert said["scene"]["actions"]["SIGINT"] == "default_int_handler"
    assert said["scene"]["wakeup"] == -1


@pytest.mark.parametrize("how", ["fork", "grandchild", "process"])
def test_a_child_has_nothing_of_the_app_open(how: str) -> None:
    said = play(how)
    assert said["scene"]["open"].items() <= said["before"]["open"].items()


def test_a_child_that_is_forked_during_the_stop_is_like_any_other() -> None:
    said = play("fork", "stopping")
    assert said["scene"]["actions"] == said["before"]["actions"]
    assert said["scene"]["wakeup"] == -1
    assert said["scene"]["open"].items() <= said["before"]["open"].items()


def test_a_program_has_default_actions() -> None:
    scene = play("executed")["scene"]
    assert [scene[mask] & ~_OF_LIBC for mask in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]
    assert len(scene["open"]) == 4, "stdin, stdout, stderr, and the directory that it lists"


def test_a_signal_to_a_child_is_the_childs_alone() -> None:
    assert play("signals")["scene"] == {
        "SIGINT": 77,
        "SIGTERM": -signal.SIGTERM,
        "SIGTSTP": -1000 - signal.SIGTSTP,
        "SIGTTIN": -1000 - signal.SIGTTIN,
        "SIGHUP": -signal.SIGHUP,
        "SIGRTMAX": -signal.SIGRTMAX,
    }


def test_a_signal_right_after_the_fork_ends_the_child_each_time() -> None:
    assert play("many")["scene"]["statuses"] == [-signal.SIGTERM]


def test_a_signal_before_the_childs_hooks_have_run_is_kept_for_it() -> None:
    assert play("early")["scene"] == {"SIGTERM": -signal.SIGTERM, "SIGINT": -signal.SIGINT}


@pytest.mark.parametrize("method", ["fork", "forkserver", "spawn"])
def test_pools_and_processes_end_and_the_app_goes_on(method: str) -> None:
    squares = [0, 1, 4, 9]
    scene = play(f"pools_{method}")["scene"]
    assert scene == {"mapped": squares, "executed": squares, "terminated": -signal.SIGTERM}


def test_a_child_runs_an_app_of_its_own_and_handles_its_signals() -> None:
    assert play("own_app")["scene"]["status"] == 7


def test_an_embedded_app_leaves_signals_alone_in_parent_and_child() -> None:
    said = play("fork", "embedded")
    assert said["during"] == said["before"]["actions"]
    assert said["scene"]["actions"] == said["before"]["actions"]
    # From Python 3.12 on, asyncio itself takes it away in a child.
    assert said["scene"]["wakeup"] == (said["before"]["wakeup"] if sys.version_info < (3, 12) else -1), "the user's own"
    assert said["scene"]["open"].items() <= said["before"]["open"].items()


def test_a_child_of_a_command_that_handles_ctrl_c_has_pythons_handler() -> None:
    said = play("fork", "interrupted")
    assert said["scene"]["actions"] == said["before"]["actions"]
