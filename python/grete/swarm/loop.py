"""The supervisor's one thread: it sleeps until something happened to a node, or its time has come."""

import contextlib
import functools
import logging
import os
import select
import signal
import time
from collections.abc import Callable, Iterable, Sequence
from typing import NoReturn

from grete import _core
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.swarm.actions import Action, Dump, Event, Exit, Fork, Kill, Signal
from grete.swarm.boards import Boards
from grete.swarm.chores import Ticking
from grete.swarm.facts import Phase
from grete.swarm.inherit import Inherited
from grete.swarm.limits import UNKILLABLE
from grete.swarm.manager import Manager
from grete.swarm.node import Node
from grete.swarm.pidfd import fallback
from grete.swarm.pollable import Pollable
from grete.swarm.report import ReportError
from grete.swarm.signals import SignalPipe
from grete.swarm.wishes import Wishes

logger = logging.getLogger("grete")

TICK = 1.0
"""Seconds. Pipes are read then, all at once: nodes report that often, and to wake up for each would be N times that."""

EAGER = 30.0
"""Seconds for which a node that is not steady is listened to at once: it says so when it is, and others may wait for
that. One that takes longer, because no broker answers, is heard at the tick like all others."""

FAILED = 1


class Loop:
    """Brings what happens to the Manager, and does what it says. Decides nothing itself."""

    def __init__(
        self,
        manager: Manager,
        wishes: Wishes,
        live: Callable[[int, int, Inherited], NoReturn],
        *,
        pollables: Sequence[Pollable] = (),
        chores: Ticking | None = None,
        boards: Boards | None = None,
        plain: bool | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """`live(node, pipe, inherited)` is what a forked child does. `plain`: True forces the way without pidfds.

        `boards`: where nodes post their metrics, if anybody wants to read them.
        """
        self.wakeups = 0
        self._manager = manager
        self._wishes = wishes
        self._live = live
        self._pollables = {pollable.fd: pollable for pollable in pollables}
        self._chores = chores
        self._boards = boards
        self._tell = functools.partial(tell, monitor, logger)
        self._plain = fallback() if plain is None else plain
        self._nodes = [Node(facts.id, plain=self._plain) for facts in manager.nodes]
        self._by_pipe: dict[int, Node] = {}
        # Pipes whose reports wake us up.
        self._eager: set[int] = set()
        self._by_pidfd: dict[int, Node] = {}
        self._status: int | None = None
        self._next_tick = 0.0
        # Whose orphans become our children has to reap them, too.
        self._reaps_all = os.getpid() == 1 or _core.is_subreaper()
        self._epoll = select.epoll()
        watched = [*Wishes.SIGNALS, signal.SIGCHLD] if self._plain or self._reaps_all else list(Wishes.SIGNALS)
        self._signals = SignalPipe(watched)
        self._inherited = Inherited()
        self._inherited.add(self._fds)
        for source in (*pollables, chores):
            if source is not None:
                self._inherited.add(source.fds)

    def run(self) -> int:
        """Until all nodes have ended; returns the exit status. Nothing of it is left then, whatever went wrong."""
        if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:
            # Inherited from who started us. Our nodes would vanish without saying how they ended.
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        try:
            with self._signals:
                for fd in (self._signals.fd, *self._pollables):
                    self._epoll.register(fd, select.EPOLLIN)
                now = time.monotonic()
                self._next_tick = now + TICK
                self._manager.start(now)
                self._act()
                self._prick_up(now)
                while self._status is None:
                    self._round(self._epoll.poll(self._timeout()))
                return self._status
        except Exception as error:
            with contextlib.suppress(Exception):
                text = "the supervisor failed; all nodes are killed"
                self._tell(logging.CRITICAL, "swarm.failed", text, error=error)
            return FAILED
        finally:
            self._kill_all()
            self._epoll.close()

    def _timeout(self) -> float:
        """Seconds until the next thing is due. `epoll.poll` rounds up to the millisecond, so that it is due then."""
        deadlines = [self._next_tick, self._manager.deadline()]
        deadlines += [pollable.deadline() for pollable in self._pollables.values()]
        if self._chores is not None:
            deadlines.append(self._chores.deadline())
        return max(0.0, min(deadline for deadline in deadlines if deadline is not None) - time.monotonic())

    def _round(self, events: list[tuple[int, int]]) -> None:
        """The Manager hears first what the pipes said, then of deaths, then what users want, and then the time.

        Who came late (we were stopped, or the machine was) has reports in its pipe that are younger than the deadline
        that has passed. So all pipes are read before the Manager looks at the clock.
        """
        self.wakeups += 1
        now = time.monotonic()
        ready = dict(events)
        due = _passed(self._manager.deadline(), now)
        ticks = self._next_tick <= now
        for node in self._nodes if due or ticks else [self._by_pipe[fd] for fd in ready if fd in self._by_pipe]:
            self._listen(node, now)
        self._bury(self._ended(ready), now)
        for fd, pollable in self._pollables.items():
            if fd in ready or _passed(pollable.deadline(), now):
                pollable.ready(fd, ready.get(fd, 0))
        if self._signals.fd in ready:
            for signum in self._signals.take():
                self._on_signal(signum, now)
        if due:
            self._manager.due(now)
        if ticks:
            # Ticks that were missed are not made up for.
            self._next_tick += TICK * (1 + (now - self._next_tick) // TICK)
        if self._chores is not None and (ticks or _passed(self._chores.deadline(), now)):
            self._chores.tick(now)
        self._act()
        self._prick_up(now)

    def _on_signal(self, signum: int, now: float) -> None:
        if signum != signal.SIGCHLD:
            self._wishes.on_signal(signum)
            return
        # Several deaths may be one SIGCHLD.
        if self._plain:
            self._bury(self._nodes, now)
        if self._reaps_all:
            self._reap_strangers(now)

    def _prick_up(self, now: float) -> None:
        """Listens eagerly to those from whom news is expected, and at the tick to the others."""
        for pipe, node in self._by_pipe.items():
            facts = self._manager.nodes[node.id]
            eager = facts.phase in (Phase.STARTING, Phase.UNSTEADY) and now - facts.since < EAGER
            if eager != (pipe in self._eager):
                self._eager.symmetric_difference_update({pipe})
                self._epoll.modify(pipe, select.EPOLLIN if eager else 0)

    def _ended(self, ready: dict[int, int]) -> list[Node]:
        return [self._by_pidfd[fd] for fd in ready if fd in self._by_pidfd]

    def _listen(self, node: Node, now: float) -> None:
        """Reads the node's pipe, which is looked after for hang-up only."""
        if not node.listens():
            return
        try:
            for report in node.drain():
                self._manager.reported(now, node.id, report, node.pid)
        except ReportError as error:
            self._manager.garbled(now, node.id, str(error), node.pid)
        else:
            if not node.listens():
                self._manager.hung_up(now, node.id, node.pid)
        if not node.listens() and node.pipe in self._by_pipe:
            # A hang-up cannot be masked, and would wake us until the process has ended.
            del self._by_pipe[node.pipe]
            self._eager.discard(node.pipe)
            self._epoll.unregister(node.pipe)

    def _bury(self, nodes: Iterable[Node], now: float) -> None:
        """Reaps those that have ended. What they have reported last is read before."""
        for node in nodes:
            self._listen(node, now)
            if node.pid is None or node.alive():
                continue
            # Out of the epoll before they are closed. A child that is just being forked has copies of both until it
            # closes what it inherited, and the epoll would go on telling of the numbers that we have closed.
            for fds, fd in ((self._by_pipe, node.pipe), (self._by_pidfd, node.pidfd)):
                if fd is not None and fds.pop(fd, None) is not None:
                    self._eager.discard(fd)
                    self._epoll.unregister(fd)
            status = node.reap()
            if status is None:
                raise AssertionError(f"node {node.id} has ended and lives")
            if self._boards is not None:
                self._boards.drop(node.id)
            self._manager.died(now, node.id, status)

    def _reap_strangers(self, now: float) -> None:
        """As PID 1: whose parent has died is our child now. Nodes go their usual way, with a status that counts."""
        with contextlib.suppress(ChildProcessError):
            while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT):
                node = next((node for node in self._nodes if node.pid == ended.si_pid), None)
                if node is not None:
                    self._bury([node], now)
                else:
                    os.waitid(os.P_PID, ended.si_pid, os.WEXITED | os.WNOHANG)

    def _act(self) -> None:
        while actions := self._manager.take():
            for action in actions:
                self._do(action)

    def _do(self, action: Action) -> None:
        match action:
            case Fork(number):
                self._fork(self._nodes[number])
            case Signal(number, signum):
                self._nodes[number].signal(signum)
            case Dump(number):
                self._nodes[number].signal(signal.SIGTTIN)
            case Kill(number):
                self._nodes[number].signal(signal.SIGKILL)
            case Event(name, level, text, fields):
                # Handlers of logs are the App's. One that raises costs its line, and no node.
                with contextlib.suppress(Exception):
                    self._tell(level, name, "%s", text, fields=fields)
            case Exit(status):
                self._status = status

    def _fork(self, node: Node) -> None:
        if self._boards is not None:
            self._boards.make(node.id)
        try:
            pid = node.fork(lambda pipe: self._live(node.id, pipe, self._inherited))
        except OSError as error:
            self._manager.fork_failed(time.monotonic(), node.id, error)
            return
        if self._boards is not None:
            self._boards.keep(node.id)
        self._manager.forked(time.monotonic(), node.id, pid)
        if node.pidfd is not None:
            # One that has ended meanwhile is readable all the same.
            self._by_pidfd[node.pidfd] = node
            self._epoll.register(node.pidfd, select.EPOLLIN)
        if node.pipe is not None:
            # For hang-up, which needs no mask; `_prick_up` adds what it brings as long as it is not steady.
            self._by_pipe[node.pipe] = node
            self._epoll.register(node.pipe, 0)

    def _kill_all(self) -> None:
        """Who waits in the kernel, for a disk that is gone, outlives SIGKILL: it is named and left behind."""
        for node in self._nodes:
            node.signal(signal.SIGKILL)
        until = time.monotonic() + UNKILLABLE
        # Blocked before the look: a child that ends between the look and the wait ends the wait.
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            while living := [node for node in self._nodes if node.reap() is None and node.pid is not None]:
                left = until - time.monotonic()
                if left <= 0:
                    break
                # Not for all of it: a thread of some library may get the signal in our place.
                signal.sigtimedwait({signal.SIGCHLD}, min(left, 0.1))
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        for node in living:
            text = (
                f"node {node.id} (pid {node.pid}) lives {UNKILLABLE:g} s after SIGKILL, and the supervisor ends "
                f"without it: /proc/{node.pid}/stack says where the kernel keeps it"
            )
            fields = {"node": node.id, "pid": node.pid, "seconds": UNKILLABLE}
            with contextlib.suppress(Exception):
                self._tell(logging.ERROR, "swarm.node.unkillable", "%s", text, fields=fields)

    def _fds(self) -> Iterable[int]:
        yield self._epoll.fileno()
        yield from self._signals.fds()
        for node in self._nodes:
            yield from node.fds()


def _passed(deadline: float | None, now: float) -> bool:
    return deadline is not None and deadline <= now
