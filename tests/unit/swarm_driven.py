"""A Manager that is told things by hand."""

import signal
from collections.abc import Callable

from grete.swarm.actions import Action, Dump, Event, Signal
from grete.swarm.limits import Limits
from grete.swarm.manager import Manager, NodeFacts, Phase
from tests.unit.swarm_reports import overdue, report

LIMITS = Limits(max_rss=2000)
TERM = Signal(0, signal.SIGTERM)
CONT = Signal(0, signal.SIGCONT)
INT = Signal(0, signal.SIGINT)
TSTP = Signal(0, signal.SIGTSTP)
NOW = 100.0
BEGIN = 98.0


class Swarm:
    """A Manager whose nodes are forked at `BEGIN`, but for node 0."""

    def __init__(self, limits: Limits = LIMITS, nodes: int = 2) -> None:
        self.manager = Manager(nodes, limits)
        self.manager.start(BEGIN)
        for node in range(1, nodes):
            self.manager.forked(BEGIN, node, 200 + node)
        self.fresh()

    @property
    def node(self) -> NodeFacts:
        return self.manager.nodes[0]

    def well(self, now: float) -> None:
        """All others report, and do well."""
        for node in range(1, len(self.manager.nodes)):
            self.manager.reported(now, node, report())

    def fresh(self) -> None:
        self.manager.take()

    def did(self) -> list[Action]:
        """What it wants of node 0's mechanism, and whether it ends."""
        return [action for action in self.manager.take() if not isinstance(action, Event)]

    def said(self, name: str) -> Event:
        """The one event of that name."""
        (event,) = [action for action in self.manager.take() if isinstance(action, Event) and action.name == name]
        return event


def in_phase(phase: Phase, limits: Limits = LIMITS) -> Swarm:
    """Node 0 is in that phase since `NOW`."""
    swarm = Swarm(limits)
    manager = swarm.manager
    if phase is Phase.DOWN:
        manager.forked(BEGIN, 0, 100)
        manager.reported(99.0, 0, report())
        swarm.well(99.0)
        manager.quiet(99.0)
        manager.died(NOW, 0, 0)
    elif phase is Phase.FORKING:
        manager.forked(BEGIN, 0, 100)
        manager.reported(BEGIN, 0, report())
        manager.died(99.0, 0, 1)
        manager.due(NOW)
    else:
        manager.forked(NOW - 1, 0, 100)
    swarm.well(NOW)
    if phase in {Phase.STEADY, Phase.UNSTEADY, Phase.STOPPING, Phase.KILLED, Phase.BACKOFF}:
        manager.reported(NOW, 0, report())
    if phase is Phase.UNSTEADY:
        manager.reported(NOW, 0, report(steady=False))
    if phase is Phase.BACKOFF:
        manager.died(NOW, 0, 1)
    if phase in {Phase.STOPPING, Phase.KILLED}:
        manager.garbled(NOW, 0, "nonsense")
    if phase is Phase.KILLED:
        for now in (NOW + 10, NOW + 20, NOW + 31.0):
            swarm.well(now)
            manager.due(now)
    assert swarm.node.phase is phase
    swarm.fresh()
    return swarm


ASKED = [TERM, CONT]
DUMPED: list[Action] = [CONT, Dump(0)]

Happening = Callable[[Manager, float], None]


def reports(**how: object) -> Happening:
    made = report(**how)  # type: ignore[arg-type]
    return lambda manager, now: manager.reported(now, 0, made)


DIES: Happening = lambda manager, now: manager.died(now, 0, 1)  # noqa: E731
LEAKS, WEDGED, LONG = reports(rss=2001), reports(gil_wait=30.5), reports(late=(overdue(),))
GARBLED: Happening = lambda manager, now: manager.garbled(now, 0, "nonsense")  # noqa: E731
HUNG_UP: Happening = lambda manager, now: manager.hung_up(now, 0)  # noqa: E731
