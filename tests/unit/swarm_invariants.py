"""Invariants of a swarm, whatever the nodes do: a second record of its state, from events and actions alone."""

import json
import math
import signal
from collections.abc import Mapping

from grete._swarm.policy.actions import EmitEvent
from grete._swarm.policy.limits import EXPEDITED_STOP_TIMEOUT, GIL_SLACK, STALL_THRESHOLD, Limits
from grete._swarm.policy.manager import Manager
from grete._swarm.policy.node_state import Phase
from grete._swarm.policy.wait_report import FIRST_REPORT_AFTER, REPEAT_REPORT_AFTER
from grete.instrumentation.events import MANAGER
from tests.unit.swarm_simulated_process import SimulatedProcess, VirtualWorld

EPS = 1e-6
NO_FAULT = {"membership", "restart"}


class ProcessRecord:
    """One life of a node, as the events describe it."""

    def __init__(self, process: SimulatedProcess, forked_at: float) -> None:
        self.process = process
        self.forked_at = forked_at
        self.heard_at = forked_at
        self.first_ready_at: float | None = None
        self.ready = False
        self.reported = False
        self.garbled = False
        self.reason: str | None = None
        self.dump_at: float | None = None
        self.term_at: float | None = None
        self.kill_by: float | None = None
        self.killed = False
        self.rolled = False
        self.status: int | None = None


class InvariantChecker:
    """Asserts. `now` is always the world's."""

    def __init__(self, manager: Manager, limits: Limits, world: VirtualWorld) -> None:
        self.manager = manager
        self.limits = limits
        self.world = world
        self.books: dict[int, ProcessRecord] = {}
        self.attempts: dict[int, int] = {}
        self.streaks: dict[int, int] = {}
        self.looping: set[int] = set()
        self.next_at: dict[int, float] = {}
        self.rolling: int | None = None
        """The node that is away by a rolling restart."""
        self.to_replace: list[SimulatedProcess] = []
        self.stop_at: float | None = None
        self.hurry_at: float | None = None
        self.quiet = False
        self.given_up = False
        self.worst = 0
        self.last_due = -1.0
        self.gaps: list[tuple[float, float]] = []
        self.rude = False
        self.released = False
        self.waited_at = -math.inf

    # Forks

    def forks(self, now: float, node: int, before: SimulatedProcess | None) -> None:
        """Never two lives at once, and exactly in time."""
        assert before is None or before.reaped, f"two lives of node {node}"
        assert not self.released, "the places of what is forked now were given up"
        assert self.manager.nodes[node].phase is Phase.FORKING
        expected = self.next_at.pop(node, 0.0)
        self.on_time(now, expected, f"fork of node {node}")

    def on_forked(self, now: float, node: int, process: SimulatedProcess) -> None:
        self.books[node] = ProcessRecord(process, now)

    def fork_failed(self, now: float, node: int) -> None:
        self._short(node, None)
        self._plan(now, node, at_once=False)

    def rests(self, now: float, node: int) -> None:
        """What the Manager says of a dead node is what the book says."""
        facts = self.manager.nodes[node]
        if node in self.next_at and not self.manager.stopping:
            assert facts.phase in {Phase.BACKOFF, Phase.FORKING}, facts
            if facts.phase is Phase.BACKOFF:
                assert facts.next_at == self.next_at[node], (facts.next_at, self.next_at[node])
        else:
            assert facts.phase is Phase.DOWN, facts
        assert facts.pid is None or facts.phase.alive

    # Reports

    def reports(self, now: float, process: SimulatedProcess, item: object) -> None:
        book = self.books[process.node]
        if book.process is not process:
            return
        book.heard_at, book.reported = now, True
        book.ready = bool(getattr(item, "ready", False))

    def on_report(self, process: SimulatedProcess) -> None:
        """A node that is served by reports is where they say."""
        book, facts = self.books[process.node], self.manager.nodes[process.node]
        if book.process is process and facts.stop_reason == "itself" and book.kill_by is None:
            book.kill_by = book.heard_at + self.limits.shutdown_timeout + self.limits.kill_grace
        if book.process is process and facts.phase.serving:
            assert (facts.phase is Phase.READY) == book.ready
            if book.ready and book.first_ready_at is None:
                book.first_ready_at = book.heard_at
            if book.first_ready_at is not None and book.heard_at - book.first_ready_at >= self.limits.ready_after:
                self.attempts[process.node] = self.streaks[process.node] = 0
                self.looping.discard(process.node)

    def on_invalid_report(self, process: SimulatedProcess) -> None:
        book = self.books[process.node]
        book.garbled = book.garbled or book.process is process

    # Signals

    def signals(self, now: float, process: SimulatedProcess, signum: int) -> None:
        """Never one to a process that is reaped: its pid may be another's."""
        assert not process.reaped, f"signal {signum} to the reaped node {process.node}"
        book = self.books[process.node]
        if signum == signal.SIGTTIN and book.reason in {"gil", "handler", "report"} and book.dump_at is None:
            book.dump_at = now
        if signum in {signal.SIGTERM, signal.SIGTSTP} and (self.stop_at is not None or self.quiet):
            assert self.released, "a node that gets no successor would keep its places"
        if signum == signal.SIGTERM:
            if book.dump_at is not None and book.term_at is None and self.hurry_at is None:
                self.on_time(now, book.dump_at + self.limits.dump_wait, f"TERM of node {process.node}")
            assert book.term_at is None, "one TERM is enough"
            book.term_at = now
            own = book.kill_by
            book.kill_by = now + self.limits.shutdown_timeout + self.limits.kill_grace
            if own is not None:
                book.kill_by = min(own, book.kill_by)
        if signum == signal.SIGINT:
            assert self.hurry_at is not None
            soon = now + self.limits.kill_grace + EXPEDITED_STOP_TIMEOUT
            book.kill_by = soon if book.kill_by is None else min(book.kill_by, soon)

    def releases(self, now: float) -> None:
        """Once, when nothing is forked any more."""
        assert not self.released
        assert self.stop_at is not None or self.quiet
        self.released = True

    def kills(self, now: float, process: SimulatedProcess) -> None:
        assert not process.reaped, f"KILL to the reaped node {process.node}"
        book = self.books[process.node]
        assert book.kill_by is not None, "KILL without TERM"
        assert not book.killed, "one KILL is enough"
        book.killed = True
        self.on_time(now, book.kill_by, f"KILL of node {process.node}")

    # Deaths

    def dies(self, now: float, process: SimulatedProcess) -> None:
        assert process.status is not None
        book, node, status = self.books[process.node], process.node, process.status
        book.status = status
        at_once = self.rolling == node and book.rolled
        if self.stop_at is not None or self.quiet or self.given_up:
            if (book.killed and status == -9) or status == 2:
                self.worst = 2
            elif not (status == 0 or (book.term_at is not None and status in {-15, -2})):
                self.worst = max(self.worst, 1)
        if book.first_ready_at is not None and now - book.first_ready_at >= self.limits.ready_after:
            self.attempts[node] = self.streaks[node] = 0
            self.looping.discard(node)
            self._plan(now, node, at_once=True)
        else:
            self._short(node, book.reason)
            self._plan(now, node, at_once)
        if at_once:
            self.rolling = None

    def on_reaped(self, now: float, process: SimulatedProcess) -> None:
        self.rests(now, process.node)

    def _short(self, node: int, reason: str | None) -> None:
        if reason not in NO_FAULT:
            self.streaks[node] = self.streaks.get(node, 0) + 1

    def _plan(self, now: float, node: int, at_once: bool) -> None:
        if self.stop_at is not None or self.quiet or self.given_up:
            return
        if at_once:
            self.next_at[node] = now
            return
        attempt = self.attempts.get(node, 0)
        self.attempts[node] = attempt + 1
        self.next_at[node] = now + min(self.limits.backoff_first * 2**attempt, self.limits.backoff_cap)

    # Time

    def due(self, now: float) -> None:
        self.last_due = now

    def slept(self, since: float, until: float) -> None:
        self.gaps.append((since, until))

    def on_time(self, now: float, expected: float, what: str) -> None:
        """Not before its time, and not after the first reading of the clock that was late enough."""
        assert now >= expected - EPS, f"{what} at {now}, too early for {expected}"
        if self.gaps and self.gaps[-1][0] <= expected <= self.gaps[-1][1] + EPS:
            return
        assert now <= expected + EPS, f"{what} at {now}, too late for {expected}"

    def in_time(self, now: float, ceased: bool) -> None:
        """The swarm always ends after a stop, and settles when faults cease."""
        limits = self.limits
        stop = limits.dump_wait + limits.shutdown_timeout + limits.kill_grace + 15.0
        since = self.stop_at if self.stop_at is not None else None
        if since is not None:
            slept = sum(end - max(begin, since) for begin, end in self.gaps if end > since)
            assert now <= since + stop + slept, "the swarm does not end"
        elif ceased:
            settle = limits.report_timeout + limits.not_ready_timeout + limits.gil_timeout + limits.backoff_cap
            n = len(self.manager.nodes)
            assert now <= 200.0 + 2 * (settle + stop) + 2 * n * (stop + 5.0), "not all come back"

    def settled(self, living: Mapping[int, SimulatedProcess]) -> bool:
        """All are there and steady, or are meant to be away, and no restart is under way."""
        if self.manager.rolling:
            return False
        return all(
            node.phase is Phase.READY or (self.quiet and not node.phase.alive) or (self.quiet and node.last_report)
            for node in self.manager.nodes
        )

    # Users, events, the end

    def command(self, now: float, name: str, living: Mapping[int, SimulatedProcess]) -> None:
        if self.manager.exit_status is not None:
            return
        if name in {"stop", "expedite"}:
            self.stop_at = now if self.stop_at is None else self.stop_at
            self.next_at.clear()
            self.rolling = None
            if name == "expedite":
                self.hurry_at = now if self.hurry_at is None else self.hurry_at
        elif self.stop_at is None and name == "quiet":
            self.quiet = True
            self.next_at.clear()
            self.rolling = None
        elif self.stop_at is None and not self.quiet and name == "restart":
            self.to_replace = [
                process for node, process in living.items() if not process.reaped and node != self.rolling
            ]

    def event(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        """In the list, with these fields; and true."""
        described = MANAGER[event.name]
        assert event.level in described.levels, event
        assert tuple(event.fields) == described.fields, event
        assert event.text
        json.dumps(event.fields)
        name = event.name.removeprefix("swarm.").replace(".", "_")
        if (check := getattr(self, f"_{name}", None)) is not None:
            check(now, event, living)

    def _node_stopping(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        node, reason = event.fields["node"], event.fields["reason"]
        book = self.books[node]
        process, limits = book.process, self.limits
        assert book.reason is None, f"stopped twice: {book.reason}, {reason}"
        assert self.rude or not process.reaped or reason in {"memory", "gil", "handler", "itself", "pipe"}
        book.reason = reason
        report = self.manager.nodes[node].last_report
        match reason:
            case "memory":
                assert report is not None
                assert report.rss is not None
                assert report.rss > (limits.max_rss or 0)
            case "gil":
                assert report is not None
                assert report.gil_wait > limits.gil_timeout - GIL_SLACK or (report.overdue and report.gil_wait > 1.5)
            case "handler":
                assert report is not None
                assert report.overdue
                assert report.gil_wait <= limits.gil_timeout or self.gaps
            case "pipe":
                assert book.garbled or not process.pipe_open
            case "report":
                assert now - process.wrote_at >= limits.report_timeout - 1.0 - EPS or self._a_little_late(now)
                self._check_listeners_reached(now)
            case "membership":
                assert self.rude or not book.ready
                assert self.rude or len(self.manager.nodes) == 1 or self._others_ready(node)
                assert event.fields["seconds"] >= limits.not_ready_timeout - EPS
            case "itself":
                assert process.asked_itself
            case "restart":
                assert self.rolling is None, f"nodes {self.rolling} and {node} are away"
                assert all(self._well(other) for other in range(len(self.manager.nodes)) if other != node)
                self.rolling, book.rolled = node, True
            case _:
                raise AssertionError(reason)

    def _waiting(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        """Of nodes that are not steady, each with a cause, not too often."""
        assert now >= self.waited_at + REPEAT_REPORT_AFTER - EPS
        self.waited_at = now
        assert self.stop_at is None
        assert not self.quiet
        assert event.fields["nodes"]
        assert event.fields["seconds"] >= FIRST_REPORT_AFTER - EPS or self.gaps
        assert len(event.fields["causes"]) == len(event.fields["nodes"])
        for node in event.fields["nodes"]:
            # Who reads after `due` may hear meanwhile what changes that.
            assert self.rude or self.manager.nodes[node].phase is not Phase.READY
            assert self.rude or self.manager.rolling or self.manager.nodes[node].phase.serving

    def _check_listeners_reached(self, now: float) -> None:
        """Just after it has slept, the supervisor takes no node for silent."""
        if self.gaps:
            began, ended = self.gaps[-1]
            if ended - began > self.limits.report_timeout + STALL_THRESHOLD + 1.0:
                assert now > ended + EPS or not self.gaps, "the supervisor has slept, not the node"

    def _a_little_late(self, now: float) -> bool:
        """Who reads after `due`, and was late, is forgiven only if it was so late that it shows."""
        if not self.rude or not self.gaps:
            return False
        began, ended = self.gaps[-1]
        return now == ended and ended - began <= self.limits.report_timeout + STALL_THRESHOLD

    def _others_ready(self, node: int) -> bool:
        return any(self.books[other].ready for other in self.books if other != node)

    def _well(self, node: int) -> bool:
        book = self.books.get(node)
        return book is not None and book.ready and book.reason is None and not book.process.reaped

    def _crash_loop(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        node = event.fields["node"]
        assert node not in self.looping, "once for each streak"
        assert self.streaks[node] == event.fields["lives"] == self.limits.crash_loop_after
        self.looping.add(node)

    def _given_up(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        assert len(self.looping) == len(self.manager.nodes)
        self.given_up = True
        self.stop_at = now
        self.next_at.clear()

    def _node_recovered(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        node = event.fields["node"]
        first = self.books[node].first_ready_at
        assert first is not None
        assert now - first >= self.limits.ready_after

    def _restarted(self, now: float, event: EmitEvent, living: Mapping[int, SimulatedProcess]) -> None:
        assert all(process.reaped for process in self.to_replace), "not all were replaced"

    def exits(self, now: float, status: int, living: Mapping[int, SimulatedProcess]) -> None:
        assert self.stop_at is not None
        assert all(process.reaped for process in living.values()), "a process is left"
        assert status == (1 if self.given_up else self.worst), (status, self.worst)
        assert self.manager.exit_status == status
        assert self.manager.deadline() is None
