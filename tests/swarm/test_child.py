"""What a node inherits, and how it ends."""

from __future__ import annotations

import os
import platform
import select
import signal
import subprocess

import pytest

from tests.kafka import eventually
from tests.swarm.loop_run import Run


def test_a_node_has_nothing_of_its_supervisor_open() -> None:
    with Run("descriptors", "--nodes", "3", stdin=subprocess.DEVNULL) as run:
        pids = run.nodes(3)
        # And one that comes later, when more is open.
        os.kill(pids[0], signal.SIGTERM)
        run.until(4, up=...)
        for line in run.lines(fds=...):
            # Not even the read end of its own pipe: with it, a node would not notice that the supervisor has gone.
            assert set(line["fds"]) == {"0", "1", "2", str(line["pipe"])}
            assert line["fds"]["0"] == os.devnull
            assert line["group"] == line["pid"]
            # Or a signal's byte would go to whatever has the number next.
            assert line["wakeup"] == -1
        assert run.stop() == 0


def test_a_child_of_a_node_has_nothing_of_node_and_supervisor() -> None:
    # A process that was started with SIGTTOU ignored is like a node in this.
    quiet = ["env", "--ignore-signal=TTOU"]
    with Run("parent", "--nodes", "1", before=quiet, stdin=subprocess.DEVNULL) as run:
        before = run.until(supervisor=...)["actions"]
        assert before["SIGINT"] == "default_int_handler"
        for name in ("before", "after"):
            child = run.until(child=name)
            assert child["actions"] == before
            assert child["wakeup"] == -1
            assert set(child["open"]) == {"0", "1", "2"}
        assert run.until(child="killed")["status"] == -signal.SIGTERM
        # The node is there, and a child of it: the pipe has ended all the same.
        assert run.until(event="swarm.node.stopping")["reason"] == "pipe"
        run.until(event="swarm.node.died")


def test_a_child_of_the_supervisor_has_nothing_of_it() -> None:
    twist = "tests.swarm.fault_injection:child_of_the_supervisor"
    with Run("obey", "--nodes", "2", "--twist", twist, stdin=subprocess.DEVNULL) as run:
        before = run.until(supervisor=...)["actions"]
        child = run.until(2, child="supervisor's")
        assert child["actions"] == before
        assert child["wakeup"] == -1
        assert set(child["open"]) == {"0", "1", "2"}
        assert run.until(2, child="killed")["status"] == -signal.SIGTERM
        assert len(run.nodes(2)) == 2
        assert not run.lines(event="swarm.stopping")
        assert run.stop() == 0


@pytest.mark.skipif("glibc" not in platform.libc_ver()[0], reason="a setting of glibc")
@pytest.mark.parametrize(("variables", "mapped"), [({}, True), ({"MALLOC_MMAP_THRESHOLD_": str(32 << 20)}, False)])
def test_a_node_keeps_no_large_blocks_that_are_freed(variables: dict[str, str], mapped: bool) -> None:
    with Run("allocate", "--nodes", "1", env=variables) as run:
        line = run.until(size=4 << 20)
        assert (line["mapped"] >= 4 << 20) == mapped
        assert run.stop() == 0


def test_a_term_that_comes_before_the_node_has_begun_is_kept() -> None:
    with Run("obey", "--nodes", "1", "--twist", "tests.swarm.fault_injection:term_at_once") as run:
        run.until(pending=[signal.SIGTERM])
        # Neither forgotten by a handler that is the supervisor's, nor the death of a node that has done nothing yet.
        run.until(node=0, signal="SIGTERM")
        assert run.until(event="swarm.node.died")["status"] == 0


@pytest.mark.parametrize(
    ("body", "status"),
    [("fail", 1), ("leave_1", 1), ("leave_2", 2), ("leave_9", 1), ("interrupt", 1), ("at_the_end", 0)],
)
def test_the_status_of_a_node(body: str, status: int) -> None:
    with Run(body, "--nodes", "1", "--deaths", "1") as run:
        assert run.wait() == 0
        assert run.until(event="swarm.node.died")["status"] == status
        # Nothing of what comes after the fork is done by the node, too.
        assert [line["pid"] for line in run.lines(ended=True)] == [run.pid]


def test_an_error_of_the_app_is_logged_with_the_node() -> None:
    with Run("fail", "--nodes", "1", "--deaths", "1") as run:
        line = run.until(event="swarm.node.failed")
        assert line["grete_node"] == "node-0"
        assert line["error"] == "RuntimeError('the app of node 0 is broken')"
        assert run.wait() == 0


def test_a_node_ends_as_the_interpreter_does() -> None:
    with Run("at_the_end", "--nodes", "1", "--deaths", "1") as run:
        assert run.wait() == 0
        assert [line["end"] for line in run.lines(end=...)] == ["body", "thread", "atexit", "buffered"]


def test_what_was_made_before_the_fork_is_not_cleaned_up_by_a_node() -> None:
    with Run("at_the_end", "--nodes", "2", "--deaths", "4", "--twist", "tests.swarm.fault_injection:finalizer") as run:
        assert run.wait() == 0
        assert [line["pid"] for line in run.lines(finalized=True)] == [run.pid]


def test_no_node_outlives_a_supervisor_that_dies_while_it_forks() -> None:
    with Run("obey", "--nodes", "1", "--twist", "tests.swarm.fault_injection:supervisor_dies") as run:
        assert run.wait() == -signal.SIGKILL  # and stdout was closed by all that had it: the node is gone
        assert run.lines(up=...) == []


@pytest.mark.parametrize("body", ["obey", "ignore", "wedge", "stopped"])
def test_no_node_outlives_its_supervisor(body: str) -> None:
    with Run("obey" if body == "stopped" else body, "--nodes", "4") as run:
        pids = run.nodes(4)
        if body == "stopped":
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
        pidfds = [os.pidfd_open(pid) for pid in pids]
        try:
            run.signal(signal.SIGKILL)
            eventually(lambda: all(_over(fd) for fd in pidfds), 5, "the nodes' end")
        finally:
            for fd in pidfds:
                os.close(fd)


def _over(pidfd: int) -> bool:
    return bool(select.select([pidfd], [], [], 0)[0])
