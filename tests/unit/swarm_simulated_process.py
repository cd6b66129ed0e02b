"""Processes of a swarm that are none: what a node may do, in a world with a clock of its own."""

import heapq
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass, field

from grete._swarm.node.report import Report
from grete._swarm.policy.limits import Limits
from tests.unit.swarm_reports import overdue, report

MAX_RSS = 1_000_000
PIPE = 60  # reports that a pipe holds
PIPE_CLOSED = "hung up"
INVALID_REPORT = "garbage"
HANDLER_LIMIT = 2.0

KINDS = (
    "crash at start",
    "crash",
    "poison",
    "exit",
    "silent",
    "wedged",
    "overdue",
    "leak",
    "stopped",
    "garbled",
    "hung up",
    "not_ready",
    "stops itself",
)


class VirtualWorld:
    """A clock, and what happens when."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.now = 0.0
        self.woken = False
        self._happenings: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0

    def at(self, time: float, happening: Callable[[], None]) -> None:
        """Not before now."""
        self._count += 1
        heapq.heappush(self._happenings, (max(time, self.now), self._count, happening))

    def run(self, until: float, deaf: bool = False) -> None:
        """Until then, or until a node wakes the supervisor, unless it is deaf."""
        self.woken = False
        while self._happenings and self._happenings[0][0] <= until:
            self.now, _, happening = heapq.heappop(self._happenings)
            happening()
            if self.woken and not deaf:
                return
        self.now = until

    def wake(self) -> None:
        """A death, or the end of a pipe."""
        self.woken = True


@dataclass(slots=True, eq=False)
class SimulatedProcess:
    """One life of a node. `fault` comes at `fault_at`."""

    world: VirtualWorld
    node: int
    pid: int
    limits: Limits
    fault: str | None
    fault_at: float
    deaf: bool
    """Takes TERM for nothing, and INT."""
    stuck: bool
    """The kernel keeps it for a while after KILL."""
    born: float
    ready_at: float = 0.0
    """When its handlers of signals are there, and its first report."""
    will_be_ready_at: float = 0.0
    healed: bool = False
    status: int | None = None
    reaped: bool = False
    outbox: list[Report | str] = field(default_factory=list)
    wrote_at: float = 0.0
    """When it wrote a report last, or would have if the pipe were not full."""
    pipe_open: bool = True
    stopped: bool = False
    quiet: bool = False
    asked: bool = False
    asked_itself: bool = False
    pending: list[int] = field(default_factory=list)

    def begin(self) -> None:
        """Starts to live."""
        rng, world = self.world.rng, self.world
        self.ready_at = self.born + rng.uniform(0.001, 0.5)
        self.will_be_ready_at = self.ready_at + rng.uniform(0.0, 1.5)
        self.wrote_at = self.born
        if self.fault == "crash at start":
            world.at(self.born + rng.uniform(0.0, 0.3), lambda: self.die(rng.choice((1, -11, -9, 3, 0))))
        elif self.fault == "poison":
            world.at(self.will_be_ready_at + rng.uniform(0.0, 2.0), lambda: self.die(-signal.SIGSEGV))
        elif self.fault is not None:
            world.at(self.fault_at, self._fail)
        world.at(self.ready_at, self._report)

    def heal(self) -> None:
        """What would come does not, and what Kafka did is over."""
        self.healed = True

    def _fail(self) -> None:
        if self.healed or self.status is not None:
            self.fault = None
            return
        rng = self.world.rng
        match self.fault:
            case "crash":
                self.die(rng.choice((-11, -9, -6, 1, 134)))
            case "exit":
                self.die(0)
            case "stopped":
                self.stopped = True
            case "garbled":
                self._write(INVALID_REPORT)
            case "hung up":
                self._hang_up()
            case "stops itself":
                self.asked_itself = True
                self._end(rng.uniform(0.0, 3.0))

    def _report(self) -> None:
        now = self.world.now
        if self.status is not None:
            return
        self.world.at(now + 1.0, self._report)
        failing = self.fault is not None and now >= self.fault_at
        if self.stopped or (failing and self.fault == "silent"):
            return
        since = now - self.fault_at if failing else 0.0
        late = self.fault == "overdue" and since > HANDLER_LIMIT
        if self.pipe_open:
            self.wrote_at = now
        self._write(
            report(
                uptime=now - self.born,
                ready=self.is_ready,
                stopping=self.asked or self.asked_itself,
                gil_wait=since if self.fault == "wedged" else 0.001,
                rss=int(MAX_RSS * (0.5 + since / 2)) if self.fault == "leak" else MAX_RSS // 2,
                late=(overdue(since, HANDLER_LIMIT),) if late else (),
            )
        )

    @property
    def is_ready(self) -> bool:
        """Whether it has its place in its groups."""
        now = self.world.now
        lost = self.fault == "not_ready" and now >= self.fault_at and not self.healed
        return now >= self.will_be_ready_at and not lost

    def _write(self, item: Report | str) -> None:
        if self.pipe_open and len(self.outbox) < PIPE:
            self.outbox.append(item)

    def _hang_up(self) -> None:
        if self.pipe_open:
            self.outbox.append(PIPE_CLOSED)
            self.pipe_open = False
            self.world.wake()

    def signal(self, signum: int) -> None:
        """What a process does with a signal."""
        if self.status is not None:
            return
        now = self.world.now
        ready = now >= self.ready_at
        if signum in {signal.SIGTTIN, signal.SIGTSTP}:
            assert ready, f"{signum} would have stopped a process without handlers"
            self.quiet = self.quiet or signum == signal.SIGTSTP
        elif signum == signal.SIGKILL:
            self.world.at(now + (12.5 if self.stuck else self.world.rng.uniform(0.0, 0.02)), lambda: self.die(-9))
        elif signum == signal.SIGCONT:
            self.stopped = False
            waiting, self.pending = self.pending, []
            for one in waiting:
                self.signal(one)
        elif self.stopped:
            self.pending.append(signum)
        elif not ready:
            self.die(-signum)
        elif not self.deaf:
            hurried = self.asked
            self.asked = True
            if self.fault == "wedged" and now >= self.fault_at:
                self._end(self.limits.shutdown_timeout, 2)  # its native thread ends it
            else:
                self._end(0.3 if hurried else self.world.rng.uniform(0.0, self.limits.shutdown_timeout * 1.1))

    def _end(self, after: float, status: int | None = None) -> None:
        status = self.world.rng.choice((0,) * 8 + (1, 2)) if status is None else status
        self.world.at(self.world.now + after, lambda: self.die(status) if not self.stopped else None)

    def die(self, status: int) -> None:
        """The kernel closes the process's files, and then reports its death."""
        if self.status is None:
            self._hang_up()
            self.status = status
            self.world.wake()
