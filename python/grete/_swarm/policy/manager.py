"""Decides what to do with which node, and when: facts in, actions out. No clock, no process, no randomness.

The table says for each phase of a node what follows from each event ("-": only the status changes):

| event \\ phase | FORKING | STARTING, READY, NOT_READY | STOPPING | KILLED | BACKOFF, DOWN |
|---|---|---|---|---|---|
| on_forked | STARTING; asked to stop if the swarm stops | an error of the caller, in all of these | | | |
| on_fork_failed | BACKOFF as after a short life; DOWN if quiet or stopping | an error of the caller | | | |
| on_report | - | rules memory, gil, handler; else READY or NOT_READY; `stopping`: STOPPING (itself) | - | - | - |
| on_invalid_report | - | STOPPING (pipe) | - | - | - |
| on_pipe_closed | - | STOPPING (pipe) unless dead within PIPE_CLOSED_GRACE | - | - | - |
| on_exited | - | BACKOFF; DOWN if quiet or stopping | same; its turn in a rolling restart: FORKING | as STOPPING | - |
| on_deadline | - | rules pipe, membership, report | TERM after dump_wait; KILL: KILLED | logs unkillable | FORKING |
| stop | DOWN if the fork has not begun, else waits for `on_forked` | STOPPING (stop) | - | - | DOWN |
| expedite | as stop | STOPPING; TERM, INT, KILL soon | TERM unless already sent, INT, KILL soon | - | DOWN |
| quiet | as stop; TSTP after its first report | TSTP, or TSTP after the first report | - | - | DOWN |
| restart | - (its process will be new) | STOPPING (restart) in its turn | - (replaced when it has died) | - | - |
| dump | - | DumpStacks, if it has ever reported | the same | - | - |

For the whole swarm, `stop` takes precedence over everything and ends with Exit when no process is left; `quiet` takes
precedence over restarts. The status of Exit is 1 after crash loops of all nodes. Otherwise the status is that of the
worst death since the stop, or since the quiet, because from then on no node is replaced. A node that was killed or
exited with 2 gives 2, a node that ended otherwise than cleanly gives 1, all others give 0.
"""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from grete._swarm.policy import event_messages, exit_status, health_rules, wait_report
from grete._swarm.policy.actions import Action
from grete._swarm.policy.backoff import Backoff
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.node_lifecycle import NodeLifecycle
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.policy.stall_clock import StallClock
from grete._swarm.policy.swarm_lifecycle import SwarmLifecycle

if TYPE_CHECKING:
    from grete._swarm.node.report import Report

__all__ = ["Manager", "NodeState", "Phase"]


class Manager:
    """State machine for all nodes of a swarm.

    Contract of the caller: `now` is in seconds of one monotonic clock. After each wake-up:

    1. Pass on everything that was read from the pipes, so that no unread report counts as silence.
    2. Pass on deaths, then commands of users; then call `on_deadline(now)`.
    3. Execute what `take_actions()` returns, call `on_forked` or `on_fork_failed` for each Fork, and repeat until
       `take_actions()` returns an empty list.
    4. Sleep until `deadline()` at most.

    Events of a pipe carry the `pid` of the process that wrote them, so that reports of an earlier process are ignored.
    """

    def __init__(self, nodes: int, limits: Limits) -> None:
        self._nodes = [NodeState(number) for number in range(nodes)]
        self.actions: list[Action] = []
        self._limits = limits
        self._backoff = Backoff(limits)
        self._node_lifecycle = NodeLifecycle(limits, self.actions, self._backoff)
        self._swarm_lifecycle = SwarmLifecycle(self._nodes, limits, self.actions, self._node_lifecycle, self._backoff)
        self._timeout_rules = health_rules.TimeoutRules(self._nodes, limits)
        self._wait_reporter = wait_report.WaitReporter(self._nodes, limits)
        self._stall_clock = StallClock(limits.report_timeout)

    @property
    def nodes(self) -> Sequence[NodeState]:
        """State of each node, by number."""
        return self._nodes

    @property
    def stopping(self) -> bool:
        """Whether the swarm stops."""
        return self._swarm_lifecycle.stopping

    @property
    def quieted(self) -> bool:
        """Whether the swarm was made quiet."""
        return self._swarm_lifecycle.quieted

    @property
    def rolling(self) -> bool:
        """Whether a rolling restart is under way."""
        return self._swarm_lifecycle.rolling is not None

    @property
    def exit_status(self) -> int | None:
        """Exit status of the swarm; None until it has ended."""
        return self._swarm_lifecycle.exit_status

    def wait_causes(self, now: float) -> Mapping[int, str]:
        """Returns what each node that is not ready waits for, and until when, by node number."""
        found = {node.id: wait_report.wait_cause(now, node, self._nodes, self._limits) for node in self._nodes}
        return {node: text for node, text in found.items() if text}

    def take_actions(self) -> list[Action]:
        """Returns the actions to execute now, each of them once."""
        actions = self.actions.copy()
        self.actions.clear()
        return actions

    # Facts that the supervisor reports

    def start(self, now: float) -> None:
        """Forks all nodes."""
        now = self._advance_clock(now)
        self._swarm_lifecycle.start(now)
        self._after_change(now)

    def on_forked(self, now: float, node: int, pid: int) -> None:
        """Handles a successful Fork."""
        now, facts = self._advance_clock(now), self._forking_node(node)
        self._node_lifecycle.on_forked(now, facts, pid)
        self.actions.append(event_messages.started(facts))
        self._swarm_lifecycle.on_forked(now, facts)
        self._after_change(now)

    def on_fork_failed(self, now: float, node: int, error: OSError) -> None:
        """Handles a failed Fork, which counts as a life of zero seconds."""
        now, facts = self._advance_clock(now), self._forking_node(node)
        facts.last_death = f"not forked: {error.strerror or error}"
        loops = self._backoff.record_exit(now, facts, None)
        restart_in = self._swarm_lifecycle.restart_in(facts, at_once=False)
        self.actions.append(event_messages.fork_failed(facts, error, restart_in, self._swarm_lifecycle.down_reason))
        self._swarm_lifecycle.schedule_restart(now, facts, restart_in, loops)
        self._after_change(now)

    def on_report(self, now: float, node: int, report: "Report", pid: int | None = None) -> None:
        """Handles a report. `pid`: the process that wrote it; None: the present one."""
        now, facts = self._advance_clock(now), self._alive_node(node, pid)
        if facts is None:
            return
        facts.last_report, facts.last_report_at, facts.silent_since = report, now, now
        if not facts.phase.serving:
            return
        if report.stopping:
            self.actions.append(event_messages.self_stopping(facts, self._limits.shutdown_timeout))
            self._node_lifecycle.on_self_stop(now, facts)
        elif violation := health_rules.check_report(report, self._limits, self._stall_clock.stalled_seconds):
            self._stop_unhealthy(now, facts, violation)
        else:
            self._node_lifecycle.set_ready(now, facts, report.ready)
            if self.quieted:
                self._node_lifecycle.quiet(facts)
        self._after_change(now)

    def on_invalid_report(self, now: float, node: int, text: str, pid: int | None = None) -> None:
        """Handles data from the node's pipe that is no valid report. The caller reads nothing more from the pipe."""
        now, facts = self._advance_clock(now), self._alive_node(node, pid)
        if facts is not None and facts.phase.serving:
            text = f"{text:.300}"
            self._stop_unhealthy(
                now, facts, health_rules.RuleViolation("pipe", f"sent an invalid report ({text})", {"error": text})
            )
            self._after_change(now)

    def on_last_error(self, now: float, node: int, text: str, pid: int | None = None) -> None:
        """Handles the error that ends the node's process. The status and the probes repeat it."""
        _, facts = self._advance_clock(now), self._alive_node(node, pid)
        if facts is not None:
            facts.last_error = text

    def on_pipe_closed(self, now: float, node: int, pid: int | None = None) -> None:
        """Handles the end of the node's pipe. Mostly the process is dying, and `on_exited` follows at once."""
        now, facts = self._advance_clock(now), self._alive_node(node, pid)
        if facts is not None and facts.pipe_closed_at is None:
            facts.pipe_closed_at = now

    def on_exited(self, now: float, node: int, status: int) -> None:
        """Handles a reaped node. `status`: exit code, or -signal."""
        now, facts = self._advance_clock(now), self._alive_node(node, None)
        if facts is None:
            return
        facts.deaths += 1
        facts.deaths_by_reason[exit_status.exit_reason(status, facts.stop_reason)] += 1
        facts.last_death = exit_status.describe(status) + (f": {facts.last_error}" if facts.last_error else "")
        facts.last_error = None
        loops = self._backoff.record_exit(now, facts, facts.stop_reason)
        restart_in = self._swarm_lifecycle.restart_in(
            facts, at_once=self._swarm_lifecycle.on_exited(now, facts, status)
        )
        self.actions.append(event_messages.died(now, facts, status, restart_in, self._swarm_lifecycle.down_reason))
        self._node_lifecycle.on_exited(now, facts, left_groups=status in (0, 1))
        self._swarm_lifecycle.schedule_restart(now, facts, restart_in, loops)
        self._after_change(now)

    def on_deadline(self, now: float) -> None:
        """Handles the time. Afterwards, `deadline()` is later than `now`."""
        now = self._advance_clock(now)
        self._swarm_lifecycle.check_rolling_timeout(now)
        for node in self._nodes:
            if node.next_at is not None and node.next_at <= now:
                self._node_lifecycle.request_fork(now, node)
            elif violation := self._timeout_rules.check_timeouts(now, node):
                self._stop_unhealthy(now, node, violation)
            else:
                self._node_lifecycle.on_deadline(now, node)
        if not self.stopping and (seconds := self._timeout_rules.none_ready_for(now)) is not None:
            self.actions.append(event_messages.no_node_ready(len(self._nodes), seconds, self._limits.not_ready_timeout))
        self._swarm_lifecycle.advance_rolling_restart(now)
        self._after_change(now)
        if self._swarm_lifecycle.down_reason is None and (awaited := self._wait_reporter.poll(now, self.rolling)):
            self.actions.append(
                event_messages.waiting(now, awaited, self._nodes, self._limits, self._swarm_lifecycle.rolling_deadline)
            )

    def deadline(self) -> float | None:
        """Returns when `on_deadline` has to be called next; None: only a new fact can change anything."""
        times = [node.next_at for node in self._nodes]
        times += [self._node_lifecycle.deadline(node) for node in self._nodes]
        if not self.stopping:
            times += [time for node in self._nodes for time in self._timeout_rules.node_deadlines(node)]
            times.append(self._timeout_rules.deadline())
        if self._swarm_lifecycle.down_reason is None:
            times.append(self._wait_reporter.deadline(self.rolling))
        times.append(self._swarm_lifecycle.deadline(self._stall_clock.now))
        deadline = min((time for time in times if time is not None), default=math.inf)
        return None if deadline == math.inf else deadline

    # Commands of users

    def stop(self, now: float) -> None:
        """Stops all nodes, and then the swarm (SIGINT, SIGTERM)."""
        self._swarm_lifecycle.stop(self._advance_clock(now))

    def expedite(self, now: float) -> None:
        """Stops the swarm without waiting for handlers (second SIGINT)."""
        self._swarm_lifecycle.expedite(self._advance_clock(now))

    def quiet(self, now: float) -> None:
        """Makes the swarm quiet (SIGTSTP): running handlers go on, no records are handed out, no node is started."""
        self._swarm_lifecycle.quiet(self._advance_clock(now))

    def restart(self, now: float) -> None:
        """Replaces each living node, one after the other (SIGHUP)."""
        self._swarm_lifecycle.restart(self._advance_clock(now))

    def dump(self, now: float) -> None:
        """Makes all nodes write their stacks (SIGTTIN)."""
        self._advance_clock(now)
        if self.exit_status is not None:
            return
        living = [node for node in self._nodes if node.phase.alive]
        asked = [node.id for node in living if self._node_lifecycle.dump_stacks(node)]
        self.actions.append(event_messages.dump(asked, [node.id for node in living if node.id not in asked]))

    # Consequences

    def _advance_clock(self, now: float) -> float:
        """Returns the time. After a pause of the supervisor, which could not read reports, extends all deadlines."""
        now, gap = self._stall_clock.update(now, self.deadline)
        if gap and not self.stopping:
            self._timeout_rules.extend_deadlines(gap)
            self._swarm_lifecycle.extend_deadlines(gap)
            self.actions.append(event_messages.supervisor_stalled(gap))
        return now

    def _alive_node(self, node: int, pid: int | None) -> NodeState | None:
        facts = self._nodes[node]
        return facts if facts.phase.alive and pid in {None, facts.pid} else None

    def _forking_node(self, node: int) -> NodeState:
        facts = self._nodes[node]
        if facts.phase is not Phase.FORKING:
            raise ValueError(f"node {node} is {facts.phase}: no fork was requested")
        return facts

    def _stop_unhealthy(self, now: float, node: NodeState, violation: health_rules.RuleViolation) -> None:
        self.actions.append(event_messages.stopping(node, violation, self._swarm_lifecycle.down_reason))
        self._node_lifecycle.request_stop(now, node, violation.reason)

    def _after_change(self, now: float) -> None:
        self._timeout_rules.on_phase_change(now)
        self._swarm_lifecycle.check_completion(now)
