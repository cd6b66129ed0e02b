"""What is done to a loop before it runs, so that a race happens each time."""

from __future__ import annotations

import atexit
import errno
import logging
import os
import resource
import signal
import time
import weakref
from pathlib import Path

from grete._swarm import event_loop as loop_module
from grete._swarm.event_loop import SupervisorLoop
from grete._swarm.policy.actions import Signal
from tests.swarm.node_bodies import say
from tests.unit.inherited_state import fork_child, inherited_state, wait_exit


def _first_child(do: object) -> None:
    """Calls it in the first child only, right after the fork, before anything of ours runs there."""
    forks = [0]

    def before() -> None:
        forks[0] += 1

    def after() -> None:
        if forks[0] == 1:
            do()  # type: ignore[operator]

    os.register_at_fork(before=before, after_in_child=after)


def term_at_once(loop: SupervisorLoop) -> None:
    """TERM reaches the first node before it has done anything of its own."""
    forked = loop._manager.on_forked

    def forked_and_termed(now: float, node: int, pid: int) -> None:
        forked(now, node, pid)
        loop._manager.actions.append(Signal(node, signal.SIGTERM))

    def wait() -> None:
        until = time.monotonic() + 20
        while signal.SIGTERM not in signal.sigpending() and time.monotonic() < until:
            os.sched_yield()
        say(pending=sorted(signal.sigpending()))

    loop._manager.on_forked = forked_and_termed  # type: ignore[method-assign]
    _first_child(wait)


def supervisor_dies(loop: SupervisorLoop) -> None:
    """The supervisor is gone before the node asks the kernel for its death signal."""
    supervisor = os.getpid()

    def kill() -> None:
        os.kill(supervisor, signal.SIGKILL)
        while os.getppid() == supervisor:
            os.sched_yield()

    _first_child(kill)


def no_descriptors(loop: SupervisorLoop) -> None:
    """None is left for the first tries, and enough later."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(int(fd.name) for fd in Path("/proc/self/fd").iterdir()), hard))
    fork_failed = loop._manager.on_fork_failed

    def failed_and_restored(now: float, node: int, error: OSError) -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        fork_failed(now, node, error)

    loop._manager.on_fork_failed = failed_and_restored  # type: ignore[method-assign]


def no_pidfd(loop: SupervisorLoop) -> None:
    """There is one descriptor too few for the first node: it has a pipe, and gets no pidfd."""
    opened = os.pidfd_open
    pids: list[int] = []

    def fail(pid: int, flags: int = 0) -> int:
        pids.append(pid)
        if len(pids) == 1:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))
        say(first=Path(f"/proc/{pids[0]}").exists())
        return opened(pid, flags)

    os.pidfd_open = fail


def no_processes(loop: SupervisorLoop) -> None:
    """The first fork is refused."""
    fork = os.fork
    refused: list[bool] = []

    def fail() -> int:
        if not refused:
            refused.append(True)
            raise BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return fork()

    os.fork = fail


def no_tick(loop: SupervisorLoop) -> None:
    """No tick reads pipes in the next hour, unless something has come."""
    loop_module.TICK = 3600.0


def broken_manager(loop: SupervisorLoop) -> None:
    """The first death is too much for it."""

    def died(now: float, node: int, status: int) -> None:
        raise RuntimeError("a bug of ours")

    loop._manager.on_exited = died  # type: ignore[method-assign]


def unkillable_node(loop: SupervisorLoop) -> None:
    """The same, and SIGKILL does nothing to the second node, as if it waited for a disk that is gone."""
    broken_manager(loop)
    loop_module.KILL_TIMEOUT = 0.2  # type: ignore[attr-defined]
    loop._nodes[1].signal = lambda signum: True  # type: ignore[method-assign]


def broken_logging(loop: SupervisorLoop) -> None:
    """A handler of logs that the App brings, and that raises in the supervisor."""
    me = os.getpid()

    class Raises(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if os.getpid() == me:
                raise RuntimeError("logs go nowhere")

    logging.getLogger("grete").addHandler(Raises())


def late_fork(loop: SupervisorLoop) -> None:
    """A child that keeps what it inherited, while the node whose descriptors these are dies."""
    closed = loop._inherited_fds.close

    def slowly() -> None:
        if loop.wakeups:
            say(keeps=True)
            signal.sigwait([signal.SIGUSR1])
        closed()

    loop._inherited_fds.close = slowly  # type: ignore[method-assign]


def other_child(loop: SupervisorLoop) -> None:
    """Code of the user's has a child in the supervisor, and asks at the end how that ended."""
    pid = os.fork()
    if pid == 0:
        os._exit(5)
    atexit.register(lambda: say(other=os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])) if os.getpid() == me else None)
    me = os.getpid()


def child_of_the_supervisor(loop: SupervisorLoop) -> None:
    """A listener of the user's forks in the supervisor, as soon as there is a node."""
    forked_node = loop._manager.on_forked

    def forks(now: float, node: int, pid: int) -> None:
        forked_node(now, node, pid)
        wait_exit(fork_child(lambda: say(child="supervisor's", **inherited_state())))
        child = fork_child(lambda: signal.sigtimedwait([], 20))
        os.kill(child, signal.SIGTERM)
        say(child="killed", status=wait_exit(child))

    loop._manager.on_forked = forks  # type: ignore[method-assign]


def finalizer(loop: SupervisorLoop) -> None:
    """A finalizer must run when the process ends that registered it."""
    weakref.finalize(loop, say, finalized=True)
