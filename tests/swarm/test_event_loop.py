"""The supervisor: deaths, stops, wake-ups, and what may go wrong with it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from grete.instrumentation.events import EVENTS
from tests.swarm.loop_run import Run

MODES = pytest.mark.parametrize("mode", [[], ["--plain"]], ids=["pidfd", "plain"])


@MODES
def test_a_node_that_dies_is_replaced_and_all_stop(mode: list[str]) -> None:
    with Run("obey", "--nodes", "3", *mode) as run:
        pids = run.nodes(3)
        os.kill(pids[1], signal.SIGKILL)
        assert run.until(event="swarm.node.died")["signal"] == "SIGKILL"
        again = run.until(4, up=...)
        assert again["up"] == run.lines(pid=pids[1], up=...)[0]["up"]
        assert run.stop() == 0
        assert [line["signal"] for line in run.lines(signal=..., node=...) if "event" not in line] == ["SIGTERM"] * 3


@MODES
def test_what_the_supervisor_logs_it_emits(mode: list[str]) -> None:
    with Run("obey", "--nodes", "2", *mode) as run:
        os.kill(run.nodes(2)[0], signal.SIGKILL)
        run.until(3, up=...)
        assert run.stop() == 0
        logged = [line for line in run.lines(event=...) if line["by"] == run.pid]
        emitted = run.lines(emitted=...)
        assert {line["by"] for line in emitted} == {run.pid}
        assert [line["emitted"] for line in emitted] == [line["event"] for line in logged]
        assert {"swarm.started", "swarm.node.died", "swarm.stopped"} <= {line["emitted"] for line in emitted}
        assert all(tuple(line["fields"]) == tuple(sorted(EVENTS[line["emitted"]].fields)) for line in emitted)


def test_a_node_emits_what_has_ended_it() -> None:
    with Run("fail", "--nodes", "1", "--deaths", "1") as run:
        run.wait()
        logged, emitted = run.lines(event="swarm.node.failed"), run.lines(emitted="swarm.node.failed")
        assert logged
        assert [line["by"] for line in emitted] == [line["by"] for line in logged]
        assert all(line["fields"] == ["error", "node"] and line["by"] != run.pid for line in emitted)


@MODES
def test_many_at_once(mode: list[str]) -> None:
    with Run("obey", "--nodes", "8", *mode) as run:
        for pid in run.nodes(8):
            os.kill(pid, signal.SIGKILL)
        run.until(8, event="swarm.node.died")
        run.until(16, up=...)
        assert run.stop() == 0


@MODES
def test_nothing_is_left_of_a_thousand_nodes(mode: list[str]) -> None:
    limits = json.dumps({"crash_loop_after": 10**6, "backoff_first": 0.001, "backoff_cap": 0.001})
    with Run("die", "--nodes", "4", "--deaths", "1000", "--limits", limits, *mode) as run:
        before = run.until(supervisor=...)
        assert run.wait(100) in (0, 1)  # 1: one of them failed after the stop had begun
        early, late = run.lines(deaths=...)
        # What was open before it ran, less its epoll, and less its wake-up pipe.
        assert run.until(wakeups=...)["open"] == before["open"] - 3
        # A thousand records of anything would be more.
        assert late["rss"] - early["rss"] < 1 << 20


def test_an_idle_supervisor_sleeps() -> None:
    with Run("obey", "--nodes", "4") as run, Run("obey", "--nodes", "4", "--plain") as plain:
        before = {}
        for one in (run, plain):
            one.until(4, event="swarm.node.ready")
            before[one] = (_sleeps(one.pid), time.monotonic())
        with pytest.raises(subprocess.TimeoutExpired):
            run.process.wait(3)
        for one, (sleeps, since) in before.items():
            # A tick a second, at which all pipes are read.
            assert _sleeps(one.pid) - sleeps <= 2 * (time.monotonic() - since)
            assert one.stop() == 0


def _sleeps(pid: int) -> int:
    """How often the process has gone to sleep so far."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.partition("\nvoluntary_ctxt_switches:")[2].split()[0])


@pytest.mark.parametrize("body", ["close_pipe", "garbage"])
def test_a_broken_pipe_is_noticed_and_does_not_keep_it_busy(body: str) -> None:
    with Run(body, "--nodes", "1") as run:
        assert run.until(event="swarm.node.stopping")["reason"] == "pipe"
        assert run.until(event="swarm.node.died")["status"] == 0
        run.until(2, up=...)
        assert run.stop() == 0
        line = run.until(wakeups=...)
        assert line["wakeups"] <= 4 * line["seconds"] + 12, line


def test_who_has_slept_reads_before_it_judges() -> None:
    limits = json.dumps({"report_timeout": 1.3})
    with Run("obey", "--nodes", "2", "--limits", limits) as run:
        run.until(2, event="swarm.node.ready")
        run.signal(signal.SIGSTOP)
        with pytest.raises(subprocess.TimeoutExpired):
            run.process.wait(1.5)
        run.signal(signal.SIGCONT)
        assert run.stop() == 0
        assert {line["reason"] for line in run.lines(event="swarm.node.stopping")} <= {"stop"}
        assert len(run.lines(up=...)) == 2


def test_each_signal_counts() -> None:
    with Run("ignore", "--nodes", "2", "--limits", json.dumps({"kill_grace": 0.1})) as run:
        run.nodes(2)
        run.signal(signal.SIGINT)
        run.until(event="swarm.stopping")
        run.signal(signal.SIGINT)
        run.until(event="swarm.stop_expedited")
        run.process.kill()


def test_stacks_of_the_supervisor_too() -> None:
    with Run("obey", "--nodes", "2", stderr=subprocess.PIPE) as run:
        run.until(2, event="swarm.node.ready")
        run.signal(signal.SIGTTIN)
        run.until(2, signal="SIGTTIN")
        assert run.stop() == 0
        assert run.process.stderr is not None
        with run.process.stderr as stderr:
            assert b"in _run_once" in stderr.read()


@pytest.mark.parametrize(
    ("twist", "error"),
    [
        ("no_descriptors", "Too many open files"),
        ("no_pidfd", "Too many open files"),
        ("no_processes", "Resource temporarily unavailable"),
    ],
)
def test_a_fork_that_fails_is_tried_again(twist: str, error: str) -> None:
    with Run("obey", "--nodes", "2", "--twist", f"tests.swarm.fault_injection:{twist}") as run:
        assert error in run.until(event="swarm.node.fork_failed")["text"]
        nodes = {run.until(count, up=...)["up"] for count in (1, 2)}
        assert nodes == {0, 1}
        # A process that was started all the same is gone.
        assert [line["first"] for line in run.lines(first=...)][:1] in ([], [False])
        assert run.stop() == 0


@MODES
def test_nodes_that_are_not_ready_are_read_before_the_tick(mode: list[str]) -> None:
    limits = json.dumps({"report_timeout": 600.0})
    with Run(
        "settle", "--nodes", "2", "--limits", limits, "--twist", "tests.swarm.fault_injection:no_tick", *mode
    ) as run:
        assert {run.until(count, event="swarm.node.ready")["node"] for count in (1, 2)} == {0, 1}
        assert run.stop() == 0
        # Ready nodes report once a second, and wake no other thread.
        line = run.until(wakeups=...)
        assert line["wakeups"] <= 2 * line["seconds"] + 12, line


@MODES
def test_a_supervisor_that_fails_takes_its_nodes_along(mode: list[str]) -> None:
    with Run("obey", "--nodes", "3", "--twist", "tests.swarm.fault_injection:broken_manager", *mode) as run:
        pids = run.nodes(3)
        os.kill(pids[0], signal.SIGKILL)
        assert run.wait() == 1
        assert run.until(event="swarm.failed")["error"] == "RuntimeError('a bug of ours')"
        for pid in pids:
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)


@MODES
def test_a_supervisor_that_fails_waits_for_no_node_for_ever(mode: list[str]) -> None:
    with Run("obey", "--nodes", "3", "--twist", "tests.swarm.fault_injection:unkillable_node", *mode) as run:
        run.nodes(3)
        pids = {line["up"]: line["pid"] for line in run.lines(up=...)}
        os.kill(pids[0], signal.SIGKILL)
        assert run.wait() == 1
        event = run.until(event="swarm.node.unkillable")
        assert (event["node"], event["pid"]) == (1, pids[1])
        with pytest.raises(ProcessLookupError):
            os.kill(pids[2], 0)


def test_a_log_handler_that_raises_costs_no_node() -> None:
    with Run("obey", "--nodes", "2", "--twist", "tests.swarm.fault_injection:broken_logging") as run:
        pids = run.nodes(2)
        os.kill(pids[0], signal.SIGKILL)
        run.until(3, up=...)
        assert run.stop() == 0
        assert not run.lines(event=...), "it did raise"


def test_a_child_with_inherited_descriptors_does_not_wake_the_supervisor() -> None:
    with Run("obey", "--nodes", "2", "--twist", "tests.swarm.fault_injection:late_fork") as run:
        first, second = run.nodes(2)
        os.kill(first, signal.SIGKILL)
        slow = run.until(keeps=True)["pid"]
        os.kill(second, signal.SIGKILL)
        slower = run.until(2, keeps=True)["pid"]
        run.until(2, event="swarm.node.died")
        for pid in (slow, slower):
            os.kill(pid, signal.SIGUSR1)
        run.until(4, up=...)
        assert run.stop() == 0
        # Four lives begin, each with a first report that is heard at once, and four end.
        line = run.until(wakeups=...)
        assert line["wakeups"] <= 2 * line["seconds"] + 20, line
