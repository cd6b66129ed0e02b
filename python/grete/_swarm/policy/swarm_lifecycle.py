"""Lifecycle of the whole swarm: running, quiet, rolling restart, stopping."""

from collections.abc import Sequence
from logging import ERROR, INFO, WARNING

from grete._plural import counted
from grete._swarm.policy import event_messages, exit_status
from grete._swarm.policy.actions import Action, Exit, LeaveGroupsOnStop
from grete._swarm.policy.backoff import Backoff
from grete._swarm.policy.limits import EXPEDITED_STOP_TIMEOUT, Limits
from grete._swarm.policy.node_lifecycle import NodeLifecycle
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.policy.rolling_restart import RollingRestart


class SwarmLifecycle:
    """State machine for the commands that concern the whole swarm, and for its end."""

    def __init__(
        self,
        nodes: Sequence[NodeState],
        limits: Limits,
        actions: list[Action],
        node_lifecycle: NodeLifecycle,
        backoff: Backoff,
    ) -> None:
        self.stopping = False
        self.quieted = False
        self.rolling: RollingRestart | None = None
        self.exit_status: int | None = None
        self._nodes = nodes
        self._limits = limits
        self._actions = actions
        self._node_lifecycle = node_lifecycle
        self._backoff = backoff
        self._started_at = 0.0
        self._all_ready = False
        self._expedited = False
        self._given_up = False
        self._worst_status = exit_status.CLEAN

    def start(self, now: float) -> None:
        """Forks all nodes."""
        self._started_at = now
        count = len(self._nodes)
        self._emit("swarm.started", INFO, f"{counted(count, 'node')} will be forked", nodes=count)
        for node in self._nodes:
            self._node_lifecycle.request_fork(now, node)

    def stop(self, now: float) -> None:
        """Stops all nodes, and then the swarm."""
        if not self.stopping:
            alive, limit = self._alive(), self._limits.shutdown_timeout
            text = f"the swarm stops: {counted(alive, 'node')} asked to stop within {limit:g} s"
            self._emit("swarm.stopping", INFO, text, nodes=alive, limit=limit)
            self._stop(now)

    def expedite(self, now: float) -> None:
        """Stops the swarm without waiting for handlers."""
        self.stop(now)
        if self._expedited or self.exit_status is not None:
            return
        self._expedited = True
        limit = self._limits.kill_grace + EXPEDITED_STOP_TIMEOUT
        text = f"second request to stop: handlers are not waited for, and nodes alive after {limit:g} s are killed"
        self._emit("swarm.stop_expedited", WARNING, text, nodes=self._alive(), limit=limit)
        for node in self._nodes:
            self._node_lifecycle.expedite_stop(now, node)

    def quiet(self, now: float) -> None:
        """Makes nodes hand out no more records, and starts no more nodes."""
        if self.stopping or self.quieted:
            return
        self.quieted = True
        alive = self._alive()
        text = f"the swarm is quiet: {counted(alive, 'node')} finish their work; no more records and nodes"
        self._emit("swarm.quiet", INFO, text, nodes=alive)
        if self.rolling is not None:
            text = "the rolling restart is aborted: the swarm is quiet from now on"
            self._actions.append(event_messages.restart_failed(WARNING, "quiet", text, self.rolling.remaining, []))
            self.rolling = None
        self._actions.append(LeaveGroupsOnStop())
        for node in self._nodes:
            self._node_lifecycle.cancel_fork(now, node)
            self._node_lifecycle.quiet(node)

    def restart(self, now: float) -> None:
        """Replaces all nodes that live now, one after the other."""
        if self.exit_status is not None:
            return
        if (why := self.down_reason) is not None:
            reason = "stop" if self.stopping else "quiet"
            self._actions.append(event_messages.restart_failed(WARNING, reason, f"no rolling restart: {why}", [], []))
            return
        if self.rolling is None:
            self.rolling = RollingRestart(now, self._nodes, self._limits.not_ready_timeout)
        else:
            self.rolling.restart_over(now)
        left = self.rolling.remaining
        text = (
            f"rolling restart of {event_messages.format_nodes(left)}, one after the other"
            if left
            else "rolling restart: no node is alive"
        )
        self._emit("swarm.restarting", INFO, text, nodes=list(left))

    def on_forked(self, now: float, node: NodeState) -> None:
        """Handles a new process. A stop may have begun since the fork was requested."""
        if self.stopping:
            self._node_lifecycle.request_stop(now, node, "stop")
        if self._expedited:
            self._node_lifecycle.expedite_stop(now, node)

    def on_exited(self, now: float, node: NodeState, status: int) -> bool:
        """Handles a death. Returns whether the node is forked again at once."""
        if self.down_reason is not None:
            # The node is not replaced, so its end counts for the exit status.
            asked, killed = node.term_sent_at is not None, node.phase is Phase.KILLED
            self._worst_status = max(self._worst_status, exit_status.swarm_exit_status(status, asked, killed))
        return self.rolling is not None and self.rolling.on_exited(now, node)

    @property
    def down_reason(self) -> str | None:
        """Why dead nodes are not started again; None: they are."""
        if self.stopping:
            return "the swarm stops"
        return "the swarm is quiet" if self.quieted else None

    def restart_in(self, node: NodeState, at_once: bool) -> float | None:
        """Returns the seconds until a dead node is forked again; None: never."""
        if self.down_reason is not None:
            return None
        return 0.0 if at_once else self._backoff.next_delay(node)

    def schedule_restart(self, now: float, node: NodeState, restart_in: float | None, loops: bool) -> None:
        """Schedules the next fork after a death. `loops`: a crash loop begins with this death."""
        if restart_in is None:
            node.enter(Phase.DOWN, now)
            return
        node.next_at = now + restart_in
        node.enter(Phase.BACKOFF, now)
        if loops:
            self._on_crash_loop(now, node)
        if restart_in == 0 and node.phase is Phase.BACKOFF:
            self._node_lifecycle.request_fork(now, node)

    def check_completion(self, now: float) -> None:
        """Checks after any change whether the swarm has ended, and whether all nodes are ready."""
        if self.stopping:
            if self.exit_status is None and not any(node.phase.alive or _is_forking(node) for node in self._nodes):
                self._exit()
            return
        if not self._all_ready and all(node.phase is Phase.READY for node in self._nodes):
            self._all_ready = True
            count, seconds = len(self._nodes), now - self._started_at
            text = f"all nodes ({count}) are ready, {seconds:.1f} s after the start"
            self._emit("swarm.ready", INFO, text, nodes=count, seconds=seconds)

    def check_rolling_timeout(self, now: float) -> None:
        """Aborts a rolling restart that has waited too long.

        Called before the rules, because the rules may change the phases that the event reports.
        """
        if self.rolling is not None and not self.rolling.can_advance:
            self._stop_if_rolling_timed_out(now, self.rolling)

    def advance_rolling_restart(self, now: float) -> None:
        """Stops the next node of a rolling restart.

        Must be called after all facts were passed on: a node's report that it is ready may be followed by its death.
        """
        if self.rolling is not None:
            self._stop_next_node(now, self.rolling)

    def deadline(self, now: float) -> float | None:
        """Returns when a rolling restart goes on, or has waited for too long; None: no rolling restart, or it waits."""
        if self.rolling is None:
            return None
        return now if self.rolling.can_advance else self.rolling.deadline()

    @property
    def rolling_deadline(self) -> float | None:
        """When a rolling restart has waited for too long; None: no rolling restart, or it waits for a node to stop."""
        return None if self.rolling is None else self.rolling.deadline()

    def extend_deadlines(self, gap: float) -> None:
        """Extends the deadline of a rolling restart by `gap` seconds, for which the supervisor was paused."""
        if self.rolling is not None:
            self.rolling.extend_deadlines(gap)

    def _on_crash_loop(self, now: float, node: NodeState) -> None:
        """Logs that the node is in a crash loop. Stops the swarm when all nodes are."""
        text = (
            f"node {node.id} is in a crash loop: {counted(node.short_lives, 'early death')} in a row, the last one: "
            f"{node.last_death}; it is started again all the same"
        )
        self._emit("swarm.crash_loop", ERROR, text, node=node.id, lives=node.short_lives, last_death=node.last_death)
        if all(other.looping for other in self._nodes):
            self._given_up = True
            text = "every node is in a crash loop: the swarm gives up and ends with status 1"
            self._emit("swarm.given_up", ERROR, text, nodes=len(self._nodes))
            self._stop(now)

    def _stop_next_node(self, now: float, rolling: RollingRestart) -> None:
        if (node := rolling.next_node(now)) is not None:
            self._actions.append(event_messages.rolling_stop(node, len(rolling.remaining)))
            self._node_lifecycle.request_stop(now, node, "restart")
        elif rolling.is_done:
            self.rolling = None
            count, seconds = rolling.replaced, now - rolling.since
            text = f"the rolling restart is complete: {counted(count, 'node')} replaced in {seconds:.1f} s"
            self._emit("swarm.restarted", INFO, text, nodes=count, seconds=seconds)
        else:
            self._stop_if_rolling_timed_out(now, rolling)

    def _stop_if_rolling_timed_out(self, now: float, rolling: RollingRestart) -> None:
        if blocking := rolling.not_ready_nodes(now):
            self.rolling = None
            text = event_messages.rolling_timeout_text(blocking, self._limits.not_ready_timeout)
            self._actions.append(event_messages.restart_failed(ERROR, "not_ready", text, rolling.remaining, blocking))

    def _stop(self, now: float) -> None:
        self.stopping, self.rolling = True, None
        if not self.quieted:
            self._actions.append(LeaveGroupsOnStop())
        for node in self._nodes:
            self._node_lifecycle.cancel_fork(now, node)
            if node.phase.serving:
                self._node_lifecycle.request_stop(now, node, "stop")
        self.check_completion(now)

    def _exit(self) -> None:
        self.exit_status = status = exit_status.FAILED if self._given_up else self._worst_status
        text = f"all nodes have ended; the swarm exits with status {status}{exit_status.STATUS_MEANING[status]}"
        self._emit("swarm.stopped", ERROR if status else INFO, text, status=status)
        self._actions.append(Exit(status))

    def _alive(self) -> int:
        return sum(node.phase.alive for node in self._nodes)

    def _emit(self, name: str, level: int, text: str, **fields: object) -> None:
        self._actions.append(event_messages.make_event(name, level, text, **fields))


def _is_forking(node: NodeState) -> bool:
    """Returns whether a fork of the node was requested, and its result is not known yet."""
    return node.phase is Phase.FORKING
