"""No signal reaches a process that got the pid of one that is gone."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator

import pytest

from grete._swarm.node import pidfd
from grete._swarm.node.pidfd import UNKNOWN_EXIT_STATUS, Pidfd
from tests.kafka.jars import ROOT
from tests.swarm.pid_namespace import NAMESPACE, refused

Start = Callable[..., int]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a child that ends with a status, or waits forever; returns its PID."""
    pids = []

    def begin(status: int | None = None) -> int:
        pid = os.fork()
        if pid == 0:
            if status is None:
                signal.pause()
            os._exit(status or 0)
        pids.append(pid)
        return pid

    yield begin
    for pid in pids:
        try:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        except (ProcessLookupError, ChildProcessError):
            continue


def ended(pid: int) -> None:
    """Wait until it has, without reaping it."""
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


def _lives(child: Pidfd) -> bool:
    return child.alive


@pytest.mark.parametrize("plain", [False, True])
def test_one_life(start: Start, plain: bool) -> None:
    child = Pidfd(start(), no_pidfd=plain)
    assert (child.fd is None) == plain
    assert _lives(child)
    assert child.reap() is None
    assert child.signal(signal.SIGKILL)
    ended(child.pid)
    assert not _lives(child)
    fd = child.fd
    assert child.reap() == -signal.SIGKILL
    assert child.reap() == -signal.SIGKILL
    assert not child.signal(signal.SIGTERM)
    assert not child.alive
    if fd is not None:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(fd)


@pytest.mark.parametrize("plain", [False, True])
def test_the_status_of_one_that_ends_by_itself(start: Start, plain: bool) -> None:
    child = Pidfd(start(7), no_pidfd=plain)
    ended(child.pid)
    assert child.reap() == 7


def test_it_becomes_readable_at_the_end(start: Start) -> None:
    child = Pidfd(start(), no_pidfd=False)
    assert child.fd is not None
    poll = select.poll()
    poll.register(child.fd, select.POLLIN)
    assert poll.poll(0) == []
    child.signal(signal.SIGKILL)
    assert poll.poll(20_000)
    assert child.reap() == -signal.SIGKILL


@pytest.mark.parametrize("plain", [False, True])
def test_one_that_was_reaped_elsewhere(start: Start, plain: bool) -> None:
    child = Pidfd(start(7), no_pidfd=plain)
    os.waitpid(child.pid, 0)
    assert not child.alive
    assert not child.signal(signal.SIGTERM)
    assert child.reap() == UNKNOWN_EXIT_STATUS


@pytest.mark.parametrize("plain", [False, True])
def test_one_that_was_closed_is_let_alone(start: Start, plain: bool) -> None:
    child = Pidfd(start(), no_pidfd=plain)
    child.close()
    assert not child.signal(signal.SIGKILL)
    os.kill(child.pid, 0)


@pytest.mark.parametrize(("value", "expected"), [("no", True), ("0", True), ("", False), ("yes", False)])
def test_the_environment_says_whether_to_do_without(
    monkeypatch: pytest.MonkeyPatch, value: str, expected: bool
) -> None:
    monkeypatch.setenv("GRETE_SWARM_PIDFD", value)
    assert pidfd.pidfd_unavailable() is expected


def test_a_system_that_refuses_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.delenv("GRETE_SWARM_PIDFD", raising=False)
    monkeypatch.setattr(os, "pidfd_open", refuse)
    assert pidfd.pidfd_unavailable()


# In a PID namespace of its own, where no other process takes numbers.
RECYCLE = """
import os, signal, sys
from pathlib import Path
from grete._swarm.node.pidfd import Pidfd

def fork():
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        os.write(write, b"x")
        signal.pause()
    os.read(read, 1)  # it lives, and would die of TERM
    os.close(read)
    os.close(write)
    return pid

def again(pid):
    # A process that gets the pid of one that was reaped.
    Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
    new = fork()
    assert new == pid, f"the pid was not given again: {new}, not {pid}"
    return new

def lives(pid):
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None

def dies(pid):
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -signal.SIGTERM

# What a plain pid does: the wrong one dies.
old = fork()
os.kill(old, signal.SIGKILL)
os.waitpid(old, 0)
wrong = again(old)
os.kill(old, signal.SIGTERM)
dies(wrong)

# The same through a pidfd, though other code has reaped the child behind its back.
held = Pidfd(fork(), no_pidfd=False)
os.kill(held.pid, signal.SIGKILL)
os.waitpid(held.pid, 0)
wrong = again(held.pid)
assert not held.signal(signal.SIGTERM)
assert not held.alive
assert lives(wrong)

# Nor is the new one reaped in place of the old one.
os.kill(wrong, signal.SIGTERM)
os.waitid(os.P_PID, wrong, os.WEXITED | os.WNOWAIT)
assert held.reap() == 255
dies(wrong)

# Without pidfds, a child that we have reaped is never signalled again.
plain = Pidfd(fork(), no_pidfd=True)
plain.signal(signal.SIGKILL)
os.waitid(os.P_PID, plain.pid, os.WEXITED | os.WNOWAIT)
assert plain.reap() == -signal.SIGKILL
wrong = again(plain.pid)
assert not plain.signal(signal.SIGTERM)
assert lives(wrong)
os.kill(wrong, signal.SIGKILL)
os.waitpid(wrong, 0)
print("done")
"""


def test_a_recycled_pid_is_not_signalled() -> None:
    if why := refused():
        pytest.skip(f"no pid can be given twice here: {why}")
    done = subprocess.run(
        [*NAMESPACE, sys.executable, "-c", RECYCLE], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.stdout == "done\n", done.stderr
