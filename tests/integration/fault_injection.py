"""Harms the nodes of a swarm in turn, from a seed, and keeps a list of what must not be."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field

from tests.integration.apps.fault_handler import KINDS
from tests.integration.procfs import resident
from tests.integration.stall_detector import Pulse
from tests.integration.swarm_process import SwarmRun

# Done from outside, by these signals in turn.
OUTSIDE = {
    "SIGKILL": (signal.SIGKILL,),
    "SIGSEGV": (signal.SIGSEGV,),
    "SIGABRT": (signal.SIGABRT,),
    "SIGTERM": (signal.SIGTERM,),
    "SIGSTOP": (signal.SIGSTOP,),
    "SIGSTOP, SIGKILL": (signal.SIGSTOP, signal.SIGKILL),
}
ALL_AT_ONCE = "SIGKILL to all"
# The others end at once; of these, which take their limits to be noticed, there are fewer.
SLOW_KINDS = ("SIGSTOP", "gil", "regex", "leak", "hang", "slow", "deaf", "close", "garbage", "half")
QUICK_KINDS = ("SIGKILL", "SIGSEGV", "SIGABRT", "SIGTERM", "SIGSTOP, SIGKILL", "segv", "exit", "child")
# A node that does not get a record leaves its order alone: it is killed then.
PATIENCE = 20.0
COMES_BACK = 90.0


@dataclass
class Harm:
    """One thing that was done to one process."""

    number: int
    node: int
    kind: str
    pid: int
    at: int  # monotonic ns, of the order or the signal
    over: int = 0  # when its node was seen to work again
    disturbed: bool = False  # something else was done to that process, too


@dataclass
class _Target:
    """A node, and what is to become of it."""

    plan: deque[str]
    pause: float = 0.0
    harm: Harm | None = None
    ready_since: float | None = None


@dataclass
class Watch:
    """What was seen of the supervisor while all this went on."""

    slowest_answer: float = 0.0
    resident: list[int] = field(default_factory=list)  # bytes, at each step
    zombies: dict[int, int] = field(default_factory=dict)  # since when, monotonic ns
    oldest_zombie: float = 0.0
    most_children: int = 0


class Faulter:
    """`step` until it says that it is done: everything planned has been done, and each node works again."""

    def __init__(self, run: SwarmRun, pulse: Pulse, seed: int, count: int) -> None:
        self.harms: list[Harm] = []
        self.watch = Watch()
        self._run = run
        self._pulse = pulse
        self._random = random.Random(seed)
        self._count = count
        plans = deal(self._random, run.nodes, count)
        self._targets = {node: _Target(deque(plan)) for node, plan in enumerate(plans)}

    @property
    def progress(self) -> str:
        """Of use when it hangs."""
        open_harms = [target.harm for target in self._targets.values() if target.harm]
        return f"{len(self.harms)} of {self._count} harms done; open: {open_harms}"

    def step(self) -> bool:
        """Reads the state of all nodes once, and does what is due."""
        asked = time.monotonic_ns()
        rows = self._run.rows()
        answered = time.monotonic_ns()
        if not self._pulse.missed(asked, answered):
            self.watch.slowest_answer = max(self.watch.slowest_answer, (answered - asked) / 1e9)
        for node, target in self._targets.items():
            row = rows[node]
            works = row["state"] == "ready" or self._run.has_worked(row["pid"])
            if target.harm is not None:
                self._follow(node, target, target.harm, row["pid"], works)
            elif target.plan and row["pid"] and (works or self._random.random() < 0.02):
                now = time.monotonic()
                if target.ready_since is None:
                    target.ready_since = now
                if now - target.ready_since >= target.pause:
                    self._do(node, target, row["pid"], works)
        self._look()
        return not any(target.harm or target.plan for target in self._targets.values())

    def _do(self, node: int, target: _Target, pid: int, works: bool) -> None:
        kind = target.plan.popleft()
        if kind in KINDS and not works:
            kind = "SIGKILL"  # a node that starts gets no records yet
        target.pause, target.ready_since = self._random.uniform(0.0, 0.3), None
        if kind == ALL_AT_ONCE:
            self._kill_all()
            return
        target.harm = self._harm(node, kind, pid)
        if kind in KINDS:
            self._run.harm(node, kind)
        else:
            send(pid, OUTSIDE[kind])

    def _kill_all(self) -> None:
        """Those that are being harmed otherwise, too: each gets only what it has got already."""
        pids = self._run.pids()
        for node, target in self._targets.items():
            if target.harm is None and node in pids:
                target.harm = self._harm(node, "SIGKILL", pids[node])
            elif target.harm is not None and self._run.spare(node):
                target.harm.kind, target.harm.at = "SIGKILL", time.monotonic_ns()
        for target in self._targets.values():
            if target.harm is not None:
                target.harm.disturbed = target.harm.kind != "SIGKILL"
                send(target.harm.pid, (signal.SIGKILL,))

    def _harm(self, node: int, kind: str, pid: int) -> Harm:
        harm = Harm(len(self.harms), node, kind, pid, time.monotonic_ns())
        self.harms.append(harm)
        return harm

    def _follow(self, node: int, target: _Target, harm: Harm, pid: int | None, works: bool) -> None:
        waited = (time.monotonic_ns() - harm.at) / 1e9
        if pid is not None and pid != harm.pid and works:
            self._run.spare(node)
            harm.over = time.monotonic_ns()
            target.harm = None
        elif harm.kind in KINDS and waited > PATIENCE and self._run.spare(node):
            harm.kind, harm.at = "SIGKILL", time.monotonic_ns()
            send(harm.pid, (signal.SIGKILL,))
        assert waited < COMES_BACK, f"node {node} does not come back after {harm}: {self._run.rows()[node]}"

    def _look(self) -> None:
        """Zombies are there for a moment between a death and its notice; not for longer."""
        children = self._run.children()
        now = time.monotonic_ns()
        watch = self.watch
        watch.zombies = {pid: watch.zombies.get(pid, now) for pid, state in children.items() if state == "Z"}
        ages = [(now - since) / 1e9 for since in watch.zombies.values() if not self._pulse.missed(since, now)]
        watch.oldest_zombie = max([watch.oldest_zombie, *ages])
        watch.most_children = max(watch.most_children, len(children))
        watch.resident.append(resident(self._run.pid))


def deal(rng: random.Random, nodes: int, count: int) -> list[list[str]]:
    """What happens to each node: each kind at least once, if there are that many, then rather quick ones.

    All nodes have about as long to go.
    """
    kinds = [*OUTSIDE, *KINDS, ALL_AT_ONCE]
    rng.shuffle(kinds)
    while len(kinds) < count:
        if rng.random() < 0.01:
            kinds.append(ALL_AT_ONCE)
        else:
            kinds.append(rng.choice(QUICK_KINDS if rng.random() < 0.6 else SLOW_KINDS))
    plans: list[list[str]] = [[] for _ in range(nodes)]
    costs = [0] * nodes
    for kind in kinds[:count]:
        node = min(range(nodes), key=costs.__getitem__)
        plans[node].append(kind)
        costs[node] += 4 if kind in SLOW_KINDS else 1
    return plans


def send(pid: int, signals: Iterable[int]) -> None:
    """To a process that may have gone just now."""
    with suppress(ProcessLookupError):
        for signum in signals:
            os.kill(pid, signum)
