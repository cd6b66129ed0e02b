"""From phase to phase: what has to be done so that one node begins, stops, and is gone."""

import signal

from grete.swarm import telling
from grete.swarm.actions import Action, Dump, Fork, Kill, Signal
from grete.swarm.backoff import Backoff
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.limits import HURRY, UNKILLABLE, Limits

# Reasons for which the stacks are wanted: something does not go on, and they say what.
_WITH_STACKS = frozenset({"handler", "gil", "report"})


class Lives:
    """Moves nodes from phase to phase, and puts down what has to be done for it."""

    def __init__(self, limits: Limits, actions: list[Action], backoff: Backoff) -> None:
        self._limits = limits
        self._actions = actions
        self._backoff = backoff

    def fork(self, now: float, node: NodeFacts) -> None:
        """A life is to begin."""
        node.next_at = None
        node.enter(Phase.FORKING, now)
        self._actions.append(Fork(node.id))

    def withdraw(self, now: float, node: NodeFacts) -> None:
        """A life that is still to begin does not. One that somebody is just beginning will be heard of."""
        if node.phase is Phase.BACKOFF or Fork(node.id) in self._actions:
            self._actions[:] = [action for action in self._actions if action != Fork(node.id)]
            node.next_at = None
            node.enter(Phase.DOWN, now)

    def begin(self, now: float, node: NodeFacts, pid: int) -> None:
        """A process has been forked."""
        node.pid, node.forked_at, node.heard_at, node.unsteady_since = pid, now, now, now
        node.restarts = node.deaths
        node.last_report = node.last_report_at = None
        node.steady_since = node.first_steady = node.pipe_lost_at = None
        node.late = False
        node.enter(Phase.STARTING, now)

    def place(self, now: float, node: NodeFacts, steady: bool) -> None:
        """The node has its place in its groups, or has not."""
        if steady and node.phase is not Phase.STEADY:
            self._actions.append(telling.steady(now, node))
            node.first_steady = now if node.first_steady is None else node.first_steady
            node.steady_since, node.unsteady_since = now, None
            node.enter(Phase.STEADY, now)
        elif not steady and node.phase is Phase.STEADY:
            self._actions.append(telling.unsteady(node))
            node.steady_since, node.unsteady_since = None, now
            node.enter(Phase.UNSTEADY, now)
        if self._backoff.recovered(now, node):
            if node.streak:
                self._actions.append(telling.recovered(node))
            self._backoff.forget(node)

    def end(self, node: NodeFacts) -> None:
        """The process is gone, and its pid may be another's: what was to be sent to it is not."""
        self._actions[:] = [
            action
            for action in self._actions
            if not (isinstance(action, (Signal, Dump, Kill)) and action.node == node.id)
        ]
        node.pid = node.forked_at = None
        node.steady_since = node.first_steady = node.unsteady_since = node.pipe_lost_at = None
        node.why_stopping = node.term_at = node.term_sent_at = node.kill_at = None

    def ask(self, now: float, node: NodeFacts, reason: str) -> None:
        """The node is to stop: stacks first where they help, then TERM, then KILL."""
        node.why_stopping = reason
        node.enter(Phase.STOPPING, now)
        # SIGTTIN *stops* a process that has no handler for it yet: a node that has reported has.
        if reason not in _WITH_STACKS or node.last_report is None:
            self._term(now, node)
            return
        # A stopped process runs no handlers: CONT before, as one that comes after it would undo the SIGTTIN.
        self._actions += (Signal(node.id, signal.SIGCONT), Dump(node.id))
        node.term_at = now + self._limits.dump_wait
        if node.term_at <= now:
            self._term(now, node)

    def leave(self, now: float, node: NodeFacts) -> None:
        """The node stops by itself: nothing is sent, but it has the time of a stop, and no more."""
        node.why_stopping = "itself"
        node.enter(Phase.STOPPING, now)
        node.kill_at = now + self._patience

    def quiet(self, node: NodeFacts) -> None:
        """The node hands out no more records. SIGTSTP would *stop* one that has no handler for it yet: see `ask`."""
        if node.phase.serving and node.last_report is not None and not node.quiet_sent:
            node.quiet_sent = True
            self._actions.append(Signal(node.id, signal.SIGTSTP))

    def dump(self, node: NodeFacts) -> bool:
        """The node writes its stacks. Returns whether it can: its handlers are there before and after its reports."""
        can = node.last_report is not None and node.pipe_lost_at is None
        if can:
            self._actions.append(Dump(node.id))
        return can

    def hurry(self, now: float, node: NodeFacts) -> None:
        """The node stops already, and waits for no handler any more: for it, INT after TERM is the second signal."""
        if node.phase is not Phase.STOPPING:
            return
        until = now + self._limits.kill_grace + HURRY
        # Who hurries is not slower than who does not, however short `shutdown_timeout` is.
        for by in (node.kill_at, now + self._patience if node.term_sent_at is None else None):
            until = until if by is None else min(until, by)
        if node.term_sent_at is None:
            self._term(now, node)
        self._actions.append(Signal(node.id, signal.SIGINT))
        node.kill_at = until

    def due(self, now: float, node: NodeFacts) -> None:
        """What a stop does when its times have come: one step for each call."""
        if (deadline := self.deadline(node)) is None or deadline > now:
            return
        if node.phase is Phase.KILLED:
            node.late = True
            self._actions.append(telling.unkillable(now, node))
        elif node.term_at is not None:
            self._term(now, node)
        else:
            self._actions += (telling.killing(now, node), Kill(node.id))
            node.enter(Phase.KILLED, now)

    def deadline(self, node: NodeFacts) -> float | None:
        """When the next step of the node's stop is due."""
        if node.phase is Phase.KILLED:
            return None if node.late else node.since + UNKILLABLE
        if node.phase is Phase.STOPPING:
            return node.term_at if node.term_at is not None else node.kill_at
        return None

    def _term(self, now: float, node: NodeFacts) -> None:
        # CONT after TERM: a stopped process takes TERM when it goes on, and not before.
        self._actions += (Signal(node.id, signal.SIGTERM), Signal(node.id, signal.SIGCONT))
        node.term_at, node.term_sent_at = None, now
        # From when TERM was really sent: who was late has not used up the node's time.
        node.kill_at = now + self._patience

    @property
    def _patience(self) -> float:
        return self._limits.shutdown_timeout + self._limits.kill_grace
