"""Phase transitions of one node, with the actions that start it, stop it and clean up after it."""

import signal

from grete._swarm.policy import event_messages
from grete._swarm.policy.actions import Action, DumpStacks, Fork, Kill, Signal
from grete._swarm.policy.backoff import Backoff
from grete._swarm.policy.limits import EXPEDITED_STOP_TIMEOUT, KILL_TIMEOUT, Limits
from grete._swarm.policy.node_state import NodeState, Phase

# Reasons for a stop that dumps the stacks first: something is stuck, and the stacks show where.
_STACK_DUMP_REASONS = frozenset({"handler", "gil", "report"})


class NodeLifecycle:
    """Moves nodes from phase to phase, and appends the actions that each transition needs."""

    def __init__(self, limits: Limits, actions: list[Action], backoff: Backoff) -> None:
        self._limits = limits
        self._actions = actions
        self._backoff = backoff

    def request_fork(self, now: float, node: NodeState) -> None:
        """Requests the fork of a new process."""
        node.next_at = None
        node.enter(Phase.FORKING, now)
        self._actions.append(Fork(node.id))

    def cancel_fork(self, now: float, node: NodeState) -> None:
        """Cancels a start. A fork that has been handed out already cannot be cancelled; `on_forked` will follow."""
        if node.phase is Phase.BACKOFF or Fork(node.id) in self._actions:
            self._actions[:] = [action for action in self._actions if action != Fork(node.id)]
            node.next_at = None
            node.enter(Phase.DOWN, now)

    def on_forked(self, now: float, node: NodeState, pid: int) -> None:
        """Resets the state of the node for the new process."""
        node.pid, node.forked_at, node.silent_since, node.not_ready_since = pid, now, now, now
        node.restarts = node.deaths
        node.last_report = node.last_report_at = None
        node.ready_since = node.first_ready_at = node.pipe_closed_at = None
        node.unkillable_logged = False
        node.enter(Phase.STARTING, now)

    def set_ready(self, now: float, node: NodeState, ready: bool) -> None:
        """Records whether the node is a stable member of its groups."""
        if ready and node.phase is not Phase.READY:
            self._actions.append(event_messages.ready(now, node))
            node.first_ready_at = now if node.first_ready_at is None else node.first_ready_at
            node.ready_since, node.not_ready_since = now, None
            node.enter(Phase.READY, now)
        elif not ready and node.phase is Phase.READY:
            self._actions.append(event_messages.not_ready(node))
            node.ready_since, node.not_ready_since = None, now
            node.enter(Phase.NOT_READY, now)
        if self._backoff.is_recovered(now, node):
            if node.short_lives:
                self._actions.append(event_messages.recovered(node))
            self._backoff.reset(node)

    def on_exited(self, now: float, node: NodeState, left_groups: bool) -> None:
        """Records the death of the process. Pending signals are dropped, because the pid may belong to another process.

        `left_groups`: whether the process has left its groups, as far as is known.
        """
        node.stale_member_pid, node.stale_member_since = (None, None) if left_groups else (node.pid, now)
        self._actions[:] = [
            action
            for action in self._actions
            if not (isinstance(action, (Signal, DumpStacks, Kill)) and action.node == node.id)
        ]
        node.pid = node.forked_at = None
        node.ready_since = node.first_ready_at = node.not_ready_since = node.pipe_closed_at = None
        node.stop_reason = node.term_at = node.term_sent_at = node.kill_at = None

    def request_stop(self, now: float, node: NodeState, reason: str) -> None:
        """Asks the node to stop: stacks first if they help, then TERM, then KILL."""
        node.stop_reason = reason
        node.enter(Phase.STOPPING, now)
        # SIGTTIN *stops* a process that has no handler for it yet. A node that has reported has its handlers.
        if reason not in _STACK_DUMP_REASONS or node.last_report is None:
            self._send_term(now, node)
            return
        # A stopped process runs no handlers. CONT goes first, because CONT after SIGTTIN would discard the SIGTTIN.
        self._actions += (Signal(node.id, signal.SIGCONT), DumpStacks(node.id))
        node.term_at = now + self._limits.dump_wait
        if node.term_at <= now:
            self._send_term(now, node)

    def on_self_stop(self, now: float, node: NodeState) -> None:
        """Records that the node stops by itself. No signal is sent, but the time limit of a stop applies."""
        node.stop_reason = "itself"
        node.enter(Phase.STOPPING, now)
        node.kill_at = now + self._stop_timeout

    def quiet(self, node: NodeState) -> None:
        """Sends SIGTSTP to the node, so that it hands out no more records.

        SIGTSTP would *stop* a process that has no handler for it yet: see `request_stop`.
        """
        if node.phase.serving and node.last_report is not None and not node.quiet_sent:
            node.quiet_sent = True
            self._actions.append(Signal(node.id, signal.SIGTSTP))

    def dump_stacks(self, node: NodeState) -> bool:
        """Makes the node write its stacks. Returns False before the node's first report and at its end."""
        can = node.last_report is not None and node.pipe_closed_at is None
        if can:
            self._actions.append(DumpStacks(node.id))
        return can

    def expedite_stop(self, now: float, node: NodeState) -> None:
        """Makes a stopping node give up its running handlers: to the node, INT after TERM is the second signal."""
        if node.phase is not Phase.STOPPING:
            return
        until = now + self._limits.kill_grace + EXPEDITED_STOP_TIMEOUT
        # An expedited stop must never get a later deadline than a normal one, however short `shutdown_timeout` is.
        for by in (node.kill_at, now + self._stop_timeout if node.term_sent_at is None else None):
            until = until if by is None else min(until, by)
        if node.term_sent_at is None:
            self._send_term(now, node)
        self._actions.append(Signal(node.id, signal.SIGINT))
        node.kill_at = until

    def on_deadline(self, now: float, node: NodeState) -> None:
        """Takes the next step of the node's stop if its time has come: one step per call."""
        if (deadline := self.deadline(node)) is None or deadline > now:
            return
        if node.phase is Phase.KILLED:
            node.unkillable_logged = True
            self._actions.append(event_messages.unkillable(now, node))
        elif node.term_at is not None:
            self._send_term(now, node)
        else:
            self._actions += (event_messages.killing(now, node), Kill(node.id))
            node.enter(Phase.KILLED, now)

    def deadline(self, node: NodeState) -> float | None:
        """Returns when the next step of the node's stop is due; None: no step."""
        if node.phase is Phase.KILLED:
            return None if node.unkillable_logged else node.since + KILL_TIMEOUT
        if node.phase is Phase.STOPPING:
            return node.term_at if node.term_at is not None else node.kill_at
        return None

    def _send_term(self, now: float, node: NodeState) -> None:
        # CONT after TERM: a stopped process handles TERM only after it has been continued.
        self._actions += (Signal(node.id, signal.SIGTERM), Signal(node.id, signal.SIGCONT))
        node.term_at, node.term_sent_at = None, now
        # Counted from when TERM was really sent: a late supervisor must not shorten the node's time.
        node.kill_at = now + self._stop_timeout

    @property
    def _stop_timeout(self) -> float:
        return self._limits.shutdown_timeout + self._limits.kill_grace
