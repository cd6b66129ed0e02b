"""Epoll loop of the supervisor, in its only thread: sleeps until a node has news, or a deadline has come."""

import contextlib
import functools
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn, Protocol

from grete import _native
from grete._process import forks
from grete._swarm.commands import CommandHandler
from grete._swarm.instance_ids import InstanceIds
from grete._swarm.node.inherited_fds import InheritedFds
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.node.pidfd import pidfd_unavailable
from grete._swarm.node.process import NodeProcess
from grete._swarm.node.report import LastError, ReportError
from grete._swarm.policy.actions import Action, DumpStacks, EmitEvent, Exit, Fork, Kill, LeaveGroupsOnStop, Signal
from grete._swarm.policy.limits import KILL_TIMEOUT
from grete._swarm.policy.manager import Manager
from grete._swarm.policy.node_state import Phase
from grete._swarm.signal_pipe import SignalPipe
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

TICK = 1.0
"""Seconds between two reads of all pipes. Nodes report once a second; a wake-up per report would be N times as many."""

EAGER_POLL_SECONDS = 30.0
"""Seconds for which the pipe of a node that is not ready wakes the loop: it will report that it is ready, and a rolling
restart may wait for that. A node that takes longer, because no broker answers, is read at the ticks like all others."""

FAILED_STATUS = 1


class Pollable(Protocol):
    """Source of events. All calls come from the supervisor's only thread, and must neither block nor raise."""

    @property
    def fd(self) -> int:
        """Descriptor that is readable when there is work. Constant: several descriptors need a nested epoll."""
        ...

    def handle_events(self, fd: int, mask: int) -> None:
        """Called when `fd` is readable, or when the deadline has passed (mask 0). There may be nothing to do."""
        ...

    def deadline(self) -> float | None:
        """Returns when `handle_events` must be called at the latest, by `time.monotonic`; None: only when readable.

        Each deadline costs a wake-up.
        """
        ...

    def fds(self) -> Sequence[int]:
        """Returns all descriptors that a forked child closes, by number. The objects stay in the child, unused."""
        ...


class TickHandler(Protocol):
    """Called by the loop, in the supervisor's only thread. Its methods must neither block nor raise."""

    def tick(self, now: float) -> None:
        """Called at each common tick, and when the deadline has passed."""
        ...

    def deadline(self) -> float | None:
        """Returns when `tick` must be called at the latest, by `time.monotonic`. None: the common ticks are enough."""
        ...

    def fds(self) -> Sequence[int]:
        """Returns all descriptors that a forked child closes."""
        ...


class SupervisorLoop:
    """Passes facts to the Manager, and executes its actions. Makes no decisions."""

    def __init__(
        self,
        manager: Manager,
        command_handler: CommandHandler,
        run_child: Callable[[int, int, InheritedFds], NoReturn],
        *,
        pollables: Sequence[Pollable] = (),
        housekeeping: TickHandler | None = None,
        metrics_segments: MetricsSegments | None = None,
        leave_groups_on_stop: Callable[[], None] | None = None,
        instance_ids: InstanceIds | None = None,
        on_forked: Callable[[int, int], None] | None = None,
        no_pidfd: bool | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """`run_child(node, pipe, inherited)` is what a forked child does. `no_pidfd`: True forces the fallback.

        `metrics_segments`: where nodes publish their metrics; None without a reader. `leave_groups_on_stop`: executes
        `LeaveGroupsOnStop`. `instance_ids`: closed in nodes. `on_forked(node, pid)` is called after each fork.
        """
        self.wakeups = 0
        self._manager = manager
        self._command_handler = command_handler
        self._run_child = run_child
        self._pollables = {pollable.fd: pollable for pollable in pollables}
        self._housekeeping = housekeeping
        self._metrics_segments = metrics_segments
        self._leave_groups_on_stop = leave_groups_on_stop
        self._on_forked = on_forked
        self._log_and_emit = functools.partial(log_and_emit, monitor, logger)
        self._no_pidfd = pidfd_unavailable() if no_pidfd is None else no_pidfd
        self._nodes = [NodeProcess(facts.id, no_pidfd=self._no_pidfd) for facts in manager.nodes]
        self._by_pipe: dict[int, NodeProcess] = {}
        # Pipes whose reports wake the loop up.
        self._eager_pipes: set[int] = set()
        self._by_pidfd: dict[int, NodeProcess] = {}
        self._exit_status: int | None = None
        self._next_tick = 0.0
        # A process that adopts orphans (PID 1, subreaper) has to reap them, too.
        self._reaps_all = os.getpid() == 1 or _native.is_subreaper()
        self._epoll = select.epoll()
        watched = (
            [*CommandHandler.SIGNALS, signal.SIGCHLD]
            if self._no_pidfd or self._reaps_all
            else list(CommandHandler.SIGNALS)
        )
        self._signals = SignalPipe(watched)
        self._inherited_fds = InheritedFds()
        self._inherited_fds.add(self._fds)
        for source in (*pollables, housekeeping, instance_ids):
            if source is not None:
                self._inherited_fds.add(source.fds)

    def run(self) -> int:
        """Runs until all nodes have ended; returns the exit status. No node is left then, even after an error."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # Inherited from the parent. With SIG_IGN the kernel reaps nodes itself, and their exit status is lost.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        forks.register(self._inherited_fds)
        try:
            with self._signals:
                for fd in (self._signals.fd, *self._pollables):
                    self._epoll.register(fd, select.EPOLLIN)
                now = time.monotonic()
                self._next_tick = now + TICK
                self._manager.start(now)
                self._run_actions()
                self._update_pipe_interest(now)
                while self._exit_status is None:
                    self._run_once(self._epoll.poll(self._timeout()))
                return self._exit_status
        except Exception as error:
            with contextlib.suppress(Exception):
                text = "the supervisor failed; all nodes are killed"
                self._log_and_emit(logging.CRITICAL, "swarm.failed", text, error=error)
            return FAILED_STATUS
        finally:
            self._kill_all()
            forks.unregister(self._inherited_fds)
            self._epoll.close()

    def _timeout(self) -> float:
        """Returns the seconds until the next deadline. `epoll.poll` rounds them up to milliseconds, never down."""
        deadlines = [self._next_tick, self._manager.deadline()]
        deadlines += [pollable.deadline() for pollable in self._pollables.values()]
        if self._housekeeping is not None:
            deadlines.append(self._housekeeping.deadline())
        return max(0.0, min(deadline for deadline in deadlines if deadline is not None) - time.monotonic())

    def _run_once(self, events: list[tuple[int, int]]) -> None:
        """Passes on what the pipes said, then deaths, then commands, then the time.

        After a pause (SIGSTOP, system suspend) the pipes hold reports that are younger than the missed deadline. So all
        pipes are read before the Manager checks the clock.
        """
        self.wakeups += 1
        now = time.monotonic()
        ready = dict(events)
        due = _is_past(self._manager.deadline(), now)
        ticks = self._next_tick <= now
        for node in self._nodes if due or ticks else [self._by_pipe[fd] for fd in ready if fd in self._by_pipe]:
            self._read_reports(node, now)
        self._reap(self._exited_nodes(ready), now)
        for fd, pollable in self._pollables.items():
            if fd in ready or _is_past(pollable.deadline(), now):
                pollable.handle_events(fd, ready.get(fd, 0))
        if self._signals.fd in ready:
            for signum in self._signals.drain():
                self._on_signal(signum, now)
        if due:
            self._manager.on_deadline(now)
        if ticks:
            # Missed ticks are skipped.
            self._next_tick += TICK * (1 + (now - self._next_tick) // TICK)
        if self._housekeeping is not None and (ticks or _is_past(self._housekeeping.deadline(), now)):
            self._housekeeping.tick(now)
        self._run_actions()
        self._update_pipe_interest(now)

    def _on_signal(self, signum: int, now: float) -> None:
        if signum != signal.SIGCHLD:
            self._command_handler.on_signal(signum)
            return
        # Several deaths may be merged into one SIGCHLD.
        if self._no_pidfd:
            self._reap(self._nodes, now)
        if self._reaps_all:
            self._reap_orphans(now)

    def _update_pipe_interest(self, now: float) -> None:
        """Lets the pipes of nodes whose news is awaited wake the loop; other pipes are read at the tick."""
        for pipe, node in self._by_pipe.items():
            facts = self._manager.nodes[node.id]
            eager = facts.phase in (Phase.STARTING, Phase.NOT_READY) and now - facts.since < EAGER_POLL_SECONDS
            if eager != (pipe in self._eager_pipes):
                self._eager_pipes.symmetric_difference_update({pipe})
                self._epoll.modify(pipe, select.EPOLLIN if eager else 0)

    def _exited_nodes(self, ready: dict[int, int]) -> list[NodeProcess]:
        return [self._by_pidfd[fd] for fd in ready if fd in self._by_pidfd]

    def _read_reports(self, node: NodeProcess, now: float) -> None:
        """Reads the node's pipe, whose events may be limited to hang-up."""
        if not node.is_readable():
            return
        try:
            for report in node.read_reports():
                if isinstance(report, LastError):
                    self._manager.on_last_error(now, node.id, report.text, node.pid)
                else:
                    self._manager.on_report(now, node.id, report, node.pid)
        except ReportError as error:
            self._manager.on_invalid_report(now, node.id, str(error), node.pid)
        else:
            if not node.is_readable():
                self._manager.on_pipe_closed(now, node.id, node.pid)
        if not node.is_readable() and node.pipe in self._by_pipe:
            # A hang-up cannot be masked. It would wake the loop until the process has ended.
            del self._by_pipe[node.pipe]
            self._eager_pipes.discard(node.pipe)
            self._epoll.unregister(node.pipe)

    def _reap(self, nodes: Iterable[NodeProcess], now: float) -> None:
        """Reaps the nodes that have ended, after their last reports have been read."""
        for node in nodes:
            self._read_reports(node, now)
            if node.pid is None or node.is_alive():
                continue
            # Removed from the epoll before they are closed. A child that is being forked holds copies of both until it
            # closes what it inherited, and the epoll would go on to report the closed numbers.
            for fds, fd in ((self._by_pipe, node.pipe), (self._by_pidfd, node.pidfd)):
                if fd is not None and fds.pop(fd, None) is not None:
                    self._eager_pipes.discard(fd)
                    self._epoll.unregister(fd)
            status = node.reap()
            if status is None:
                raise AssertionError(f"node {node.id} has ended, but is not reapable")
            if self._metrics_segments is not None:
                self._metrics_segments.remove(node.id)
            self._manager.on_exited(now, node.id, status)

    def _reap_orphans(self, now: float) -> None:
        """Reaps adopted processes. Nodes among the children are reaped as usual, so their status counts."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                node = next((node for node in self._nodes if node.pid == ended.si_pid), None)
                if node is not None:
                    self._reap([node], now)
                else:
                    os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)

    def _run_actions(self) -> None:
        while actions := self._manager.take_actions():
            for action in actions:
                self._run_action(action)

    def _run_action(self, action: Action) -> None:
        match action:
            case Fork(number):
                self._fork(self._nodes[number])
            case Signal(number, signum):
                self._nodes[number].signal(signum)
            case DumpStacks(number):
                self._nodes[number].signal(signal.SIGTTIN)
            case Kill(number):
                self._nodes[number].signal(signal.SIGKILL)
            case LeaveGroupsOnStop():
                if self._leave_groups_on_stop is not None:
                    self._leave_groups_on_stop()
            case EmitEvent(name, level, text, fields):
                # Logging handlers belong to the App. An error of theirs costs the log line, and no node.
                with contextlib.suppress(Exception):
                    self._log_and_emit(level, name, "%s", text, fields=fields)
            case Exit(status):
                self._exit_status = status

    def _fork(self, node: NodeProcess) -> None:
        if self._metrics_segments is not None:
            self._metrics_segments.create(node.id)
        try:
            pid = node.fork(lambda pipe: self._run_child(node.id, pipe, self._inherited_fds))
        except OSError as error:
            self._manager.on_fork_failed(time.monotonic(), node.id, error)
            return
        if self._metrics_segments is not None:
            self._metrics_segments.keep(node.id)
        if self._on_forked is not None:
            self._on_forked(node.id, pid)
        self._manager.on_forked(time.monotonic(), node.id, pid)
        if node.pidfd is not None:
            # The pidfd of a process that has ended meanwhile is readable, too.
            self._by_pidfd[node.pidfd] = node
            self._epoll.register(node.pidfd, select.EPOLLIN)
        if node.pipe is not None:
            # Without a mask: only hang-up is reported. `_update_pipe_interest` adds EPOLLIN while the node is not
            # ready.
            self._by_pipe[node.pipe] = node
            self._epoll.register(node.pipe, 0)

    def _kill_all(self) -> None:
        """Kills all nodes. A process in an uninterruptible wait outlives SIGKILL: it is logged and left behind."""
        for node in self._nodes:
            node.signal(signal.SIGKILL)
        until = time.monotonic() + KILL_TIMEOUT
        # Blocked before the check: a child that ends between the check and the wait ends the wait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            while living := [node for node in self._nodes if node.reap() is None and node.pid is not None]:
                left = until - time.monotonic()
                if left <= 0:
                    break
                # At most 0.1 s: a thread of some library may get the signal instead.
                signal.sigtimedwait({signal.SIGCHLD}, min(left, 0.1))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for node in living:
            text = (
                f"node {node.id} (pid {node.pid}) is alive {KILL_TIMEOUT:g} s after SIGKILL, and the supervisor ends "
                f"without it: see /proc/{node.pid}/stack for where the kernel waits"
            )
            fields = {"node": node.id, "pid": node.pid, "seconds": KILL_TIMEOUT}
            with contextlib.suppress(Exception):
                self._log_and_emit(logging.ERROR, "swarm.node.unkillable", "%s", text, fields=fields)

    def _fds(self) -> Iterable[int]:
        yield self._epoll.fileno()
        yield from self._signals.fds()
        for node in self._nodes:
            yield from node.fds()


def _is_past(deadline: float | None, now: float) -> bool:
    return deadline is not None and deadline <= now
