"""A supervisor that does what the Manager wants in a made-up world, where a judge watches it."""

import random

from grete._swarm.policy.actions import Action, DumpStacks, EmitEvent, Exit, Fork, Kill, LeaveGroupsOnStop, Signal
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager
from tests.unit.swarm_invariants import InvariantChecker
from tests.unit.swarm_simulated_process import (
    INVALID_REPORT,
    KINDS,
    MAX_RSS,
    PIPE_CLOSED,
    SimulatedProcess,
    VirtualWorld,
)

QUIET_FROM = 40.0  # when faults cease
TICK = 1.0


def limits(rng: random.Random) -> Limits:
    """Short ones, so that little time brings much about."""
    return Limits(
        max_rss=MAX_RSS,
        gil_timeout=rng.choice((2.0, 5.0)),
        report_timeout=rng.choice((2.5, 6.0)),
        not_ready_timeout=rng.choice((5.0, 12.0)),
        shutdown_timeout=rng.choice((0.0, 1.0, 4.0)),
        kill_grace=rng.choice((0.1, 1.0)),
        dump_wait=rng.choice((0.0, 1.5)),
        backoff_first=rng.choice((0.001, 0.25, 1.0)),
        backoff_cap=rng.choice((1.0, 5.0)),
        ready_after=rng.choice((1.0, 4.0)),
        crash_loop_after=rng.choice((2, 4)),
        session_timeout=45.0,
        stale_member_timeout=rng.choice((0.0, 45.0)),
    )


class Simulation:
    """One seed."""

    def __init__(self, seed: int, *, loud: bool = False) -> None:
        self.rng = rng = random.Random(seed)
        self.loud = loud
        self.world = VirtualWorld(rng)
        self.limits = limits(rng)
        self.nodes = rng.randint(1, 5)
        self.manager = Manager(self.nodes, self.limits)
        self.judge = InvariantChecker(self.manager, self.limits, self.world)
        self.faulty = rng.choice((0.0, 0.2, 0.5, 0.9, 1.0))
        self.kinds = rng.sample(KINDS, rng.randint(1, len(KINDS)))
        self.fork_fails = rng.choice((0.0, 0.0, 0.1, 0.5))
        self.sleepy = rng.choice((0.0, 0.0, 0.02))
        self.meddling = rng.choice((0.0, 0.05, 0.3))
        # Reads pipes after `due` at times, which is against the contract, and must not matter to who reports.
        self.rude = self.judge.rude = rng.random() < 0.2
        self.quits = rng.random() < 0.3
        self.living: dict[int, SimulatedProcess] = {}
        self.earlier: list[SimulatedProcess] = []
        self.status: int | None = None
        self.said: set[str] = set()
        self.ceased = False

    # The world

    def fork(self, node: int) -> None:
        """As the kernel does it, or not."""
        now, rng = self.world.now, self.rng
        self.judge.forks(now, node, self.living.get(node))
        if not self.ceased and rng.random() < self.fork_fails:
            error = OSError(*rng.choice(((11, "Resource temporarily unavailable"), (12, "Cannot allocate memory"))))
            self.judge.fork_failed(now, node)
            self.manager.on_fork_failed(now, node, error)
            self.judge.rests(now, node)
            return
        pid = rng.choice((100 + node, 1000 + self.world._count))  # recycled at times
        fault = rng.choice(self.kinds) if not self.ceased and rng.random() < self.faulty else None
        process = SimulatedProcess(
            self.world,
            node,
            pid,
            self.limits,
            fault,
            now + rng.uniform(0.0, 15.0),
            deaf=not self.ceased and rng.random() < 0.1,
            stuck=not self.ceased and rng.random() < 0.05,
            born=now,
        )
        if (before := self.living.get(node)) is not None:
            self.earlier.append(before)
        self.living[node] = process
        process.begin()
        self.judge.on_forked(now, node, process)
        self.manager.on_forked(now, node, pid)

    def cease(self) -> None:
        """Nothing bad happens from now on; what has happened is dealt with."""
        self.ceased = True
        for process in self.living.values():
            process.heal()

    # The supervisor

    def run(self) -> int:
        """Until the swarm has ended, with that status."""
        self.manager.start(0.0)
        self.perform()
        tick = TICK
        while self.status is None:
            now = self.world.now
            if not self.ceased and now >= QUIET_FROM:
                self.cease()
            if self.ceased and self.judge.settled(self.living) and not self.manager.stopping:
                self.command("stop")
                continue
            deadline = self.manager.deadline()
            target = tick if deadline is None else min(tick, max(deadline, now))
            asleep = not self.ceased and self.rng.random() < self.sleepy
            if asleep:
                target = now + self.rng.uniform(1.0, 90.0)
                self.judge.slept(now, target)
            self.world.run(target, deaf=asleep)
            self.wake()
            while tick <= self.world.now:
                tick += TICK
            self.judge.in_time(self.world.now, self.ceased)
        return self.status

    def wake(self) -> None:
        """One round."""
        now, rng = self.world.now, self.rng
        if self.rude and rng.random() < 0.5:
            self.due(now)
        self.drain(now)
        for process in list(self.living.values()):
            if process.status is not None and not process.reaped:
                self.trace(f"{process.node} died: {process.status}")
                self.judge.dies(now, process)
                self.manager.on_exited(now, process.node, process.status)
                process.reaped = True
                self.judge.on_reaped(now, process)
        if rng.random() < self.meddling and not self.ceased:
            commands = ["restart", "restart", "dump"]
            commands += (["quiet", "stop", "expedite"] if rng.random() < 0.1 else []) if self.quits else []
            self.command(rng.choice(commands))
        self.due(now)
        self.perform()

    def drain(self, now: float) -> None:
        """Reads all that lies in pipes, and now and then what was in one whose process is long gone."""
        for process in list(self.living.values()):
            items, process.outbox = process.outbox, []
            for item in items if not process.reaped else ():
                self.hear(now, process, item)
        if self.earlier and self.rng.random() < 0.05:
            process = self.rng.choice(self.earlier)
            if process.pid != self.living[process.node].pid:
                for item in process.outbox or [PIPE_CLOSED, INVALID_REPORT]:
                    self.hear(now, process, item)

    def hear(self, now: float, process: SimulatedProcess, item: object) -> None:
        """One thing from a pipe."""
        if item is PIPE_CLOSED:
            self.manager.on_pipe_closed(now, process.node, process.pid)
        elif item is INVALID_REPORT:
            self.judge.on_invalid_report(process)
            self.manager.on_invalid_report(now, process.node, "b'x' begins no frame", process.pid)
        else:
            self.judge.reports(now, process, item)
            self.manager.on_report(now, process.node, item, process.pid)  # type: ignore[arg-type]
            self.judge.on_report(process)

    def command(self, name: str) -> None:
        """What a user wants."""
        now = self.world.now
        self.perform()  # what has been said before has nothing to do with it
        self.trace(name)
        self.judge.command(now, name, self.living)
        getattr(self.manager, name)(now)
        if name in {"stop", "expedite"}:
            self.perform()

    def due(self, now: float) -> None:
        """No deadline is left that has passed."""
        self.manager.on_deadline(now)
        self.judge.due(now)
        deadline = self.manager.deadline()
        assert deadline is None or deadline > now, f"{deadline} <= {now}: a busy loop"

    def perform(self) -> None:
        """Does what the Manager wants, until it wants nothing more."""
        for _ in range(4):
            actions = self.manager.take_actions()
            if not actions:
                return
            assert len(actions) <= 10 + 20 * self.nodes, "too much at once"
            for action in actions:
                self.do(action)
        assert not self.manager.take_actions(), "it wants something over and over again at one instant"

    def do(self, action: Action) -> None:
        """One action."""
        now = self.world.now
        self.trace(str(action.text if isinstance(action, EmitEvent) else action))
        assert self.status is None, f"{action} after the end"
        match action:
            case Fork(node):
                self.fork(node)
            case Signal(node, signum):
                self.judge.signals(now, self.living[node], signum)
                self.living[node].signal(signum)
            case DumpStacks(node):
                self.judge.signals(now, self.living[node], 21)
                self.living[node].signal(21)
            case Kill(node):
                self.judge.kills(now, self.living[node])
                self.living[node].signal(9)
            case LeaveGroupsOnStop():
                self.judge.releases(now)
            case Exit(status):
                self.judge.exits(now, status, self.living)
                self.status = status
            case EmitEvent():
                self.said |= {action.name, str(action.fields.get("reason"))}
                self.judge.event(now, action, self.living)

    def trace(self, what: str) -> None:
        """Prints a step if the simulation is loud."""
        if self.loud:
            print(f"{self.world.now:10.3f} {what}")
