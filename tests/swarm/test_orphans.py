"""Where orphans become the supervisor's children, it reaps them, and takes none of them for a node."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.kafka import eventually
from tests.swarm.loop_run import Run
from tests.swarm.pid_namespace import NAMESPACE, refused


@pytest.mark.parametrize("mode", [["--subreaper"], ["--subreaper", "--plain"]], ids=["pidfd", "plain"])
def test_a_subreaper(mode: list[str]) -> None:
    with Run("orphan", "--nodes", "3", *mode) as run:
        run.nodes(3)
        _outlived(run, run.pid, 3)
        assert run.stop() == 0


@pytest.mark.parametrize("mode", [[], ["--plain"]], ids=["pidfd", "plain"])
def test_pid_1(mode: list[str]) -> None:
    if why := refused():
        pytest.skip(f"no PID namespace here: {why}")
    with Run("orphan", "--nodes", "3", *mode, before=NAMESPACE) as run:
        run.nodes(3)
        assert run.pid == 1
        (outside,) = _children(run.process.pid)
        _outlived(run, outside, 3)
        os.kill(outside, signal.SIGTERM)
        assert run.wait() == 0


def test_who_is_neither_leaves_the_children_of_others_alone() -> None:
    with Run("obey", "--nodes", "2", "--twist", "tests.swarm.fault_injection:other_child") as run:
        for pid in run.nodes(2):
            os.kill(pid, signal.SIGKILL)
        run.until(4, up=...)
        assert run.stop() == 0
        assert run.until(other=...)["other"] == 5


def _outlived(run: Run, supervisor: int, count: int) -> None:
    """Each node is killed, and the child that it leaves behind ends after it."""
    before = _children(supervisor)
    assert len(before) == count
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    run.until(count, event="swarm.node.died")
    assert {line["status"] for line in run.lines(event="swarm.node.died")} == {-signal.SIGKILL}
    run.until(2 * count, up=...)
    eventually(lambda: len(_children(supervisor)) == count, 10, "only nodes are left", longest_wait=0.02)
    assert len(run.lines(event="swarm.node.died")) == count


def _children(pid: int) -> list[int]:
    """All that it has not reaped."""
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
