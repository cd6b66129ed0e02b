"""A Manager that is driven by hand."""

import signal
from collections.abc import Callable

from grete._swarm.policy.actions import Action, DumpStacks, EmitEvent, LeaveGroupsOnStop, Signal
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager, NodeState, Phase
from tests.unit.swarm_reports import overdue, report

LIMITS = Limits(max_rss=2000)
TERM = Signal(0, signal.SIGTERM)
CONT = Signal(0, signal.SIGCONT)
INT = Signal(0, signal.SIGINT)
TSTP = Signal(0, signal.SIGTSTP)
NOW = 100.0
BEGIN = 98.0


class DrivenManager:
    """A Manager whose nodes are forked at `BEGIN`, but for node 0."""

    def __init__(self, limits: Limits = LIMITS, nodes: int = 2) -> None:
        self.manager = Manager(nodes, limits)
        self.manager.start(BEGIN)
        for node in range(1, nodes):
            self.manager.on_forked(BEGIN, node, 200 + node)
        self.discard_actions()

    @property
    def node(self) -> NodeState:
        return self.manager.nodes[0]

    def report_others_ready(self, now: float) -> None:
        """All others report, and do well."""
        for node in range(1, len(self.manager.nodes)):
            self.manager.on_report(now, node, report())

    def discard_actions(self) -> None:
        self.manager.take_actions()

    def take_actions(self) -> list[Action]:
        """What it wants of node 0's mechanism, and whether it ends."""
        return [
            action for action in self.manager.take_actions() if not isinstance(action, (EmitEvent, LeaveGroupsOnStop))
        ]

    def take_event(self, name: str) -> EmitEvent:
        """The one event of that name."""
        (event,) = [
            action for action in self.manager.take_actions() if isinstance(action, EmitEvent) and action.name == name
        ]
        return event


def in_phase(phase: Phase, limits: Limits = LIMITS) -> DrivenManager:
    """Node 0 is in that phase since `NOW`."""
    swarm = DrivenManager(limits)
    manager = swarm.manager
    if phase is Phase.DOWN:
        manager.on_forked(BEGIN, 0, 100)
        manager.on_report(99.0, 0, report())
        swarm.report_others_ready(99.0)
        manager.quiet(99.0)
        manager.on_exited(NOW, 0, 0)
    elif phase is Phase.FORKING:
        manager.on_forked(BEGIN, 0, 100)
        manager.on_report(BEGIN, 0, report())
        manager.on_exited(99.0, 0, 1)
        manager.on_deadline(NOW)
    else:
        manager.on_forked(NOW - 1, 0, 100)
    swarm.report_others_ready(NOW)
    if phase in {Phase.READY, Phase.NOT_READY, Phase.STOPPING, Phase.KILLED, Phase.BACKOFF}:
        manager.on_report(NOW, 0, report())
    if phase is Phase.NOT_READY:
        manager.on_report(NOW, 0, report(ready=False))
    if phase is Phase.BACKOFF:
        manager.on_exited(NOW, 0, 1)
    if phase in {Phase.STOPPING, Phase.KILLED}:
        manager.on_invalid_report(NOW, 0, "nonsense")
    if phase is Phase.KILLED:
        for now in (NOW + 10, NOW + 20, NOW + 31.0):
            swarm.report_others_ready(now)
            manager.on_deadline(now)
    assert swarm.node.phase is phase
    swarm.discard_actions()
    return swarm


STOP_SIGNALS = [TERM, CONT]
STACKS_DUMPED: list[Action] = [CONT, DumpStacks(0)]

Step = Callable[[Manager, float], None]


def reports(**how: object) -> Step:
    made = report(**how)  # type: ignore[arg-type]
    return lambda manager, now: manager.on_report(now, 0, made)


DIES: Step = lambda manager, now: manager.on_exited(now, 0, 1)  # noqa: E731
LEAKS, WEDGED, LONG = reports(rss=2001), reports(gil_wait=30.5), reports(late=(overdue(),))
GARBLED: Step = lambda manager, now: manager.on_invalid_report(now, 0, "nonsense")  # noqa: E731
HUNG_UP: Step = lambda manager, now: manager.on_pipe_closed(now, 0)  # noqa: E731
