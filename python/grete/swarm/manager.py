"""What to do with which node, and when: facts in, actions out. No clock, no process, nothing random.

Each phase of a node, and what follows from each event ("-": nothing but what is noted for the status):

| event \\ phase | FORKING | STARTING, STEADY, UNSTEADY | STOPPING | KILLED | BACKOFF, DOWN |
|---|---|---|---|---|---|
| forked | STARTING; asked to stop if the swarm stops | an error of the caller, in all of these | | | |
| fork_failed | BACKOFF as after a short life; DOWN if quiet or stopping | an error of the caller | | | |
| reported | - | rules memory, gil, handler; else STEADY or not; `stopping`: STOPPING (itself) | - | - | - |
| garbled | - | STOPPING (pipe) | - | - | - |
| hung_up | - | STOPPING (pipe) unless dead within HANG_UP_WAIT | - | - | - |
| died | - | BACKOFF; DOWN if quiet or stopping | the same; its turn in a rolling restart: FORKING | as STOPPING | - |
| due | - | rules pipe, membership, report | TERM after dump_wait; KILL: KILLED | told once that it lives | FORKING |
| stop | DOWN if nobody has begun it, else waits for `forked` | STOPPING (stop) | - | - | DOWN |
| hurry | as stop | STOPPING; TERM, INT, KILL soon | TERM if it was still to come, INT, KILL soon | - | DOWN |
| quiet | as stop; told with its first report | TSTP, or with the first report | - | - | DOWN |
| restart | - (it will be new) | STOPPING (restart) in its turn | - (replaced by its death) | - | - |
| dump | - | Dump, if it has ever reported | the same | - | - |

Of the swarm: `stop` wins over all and ends with Exit when no process is left, `quiet` over restarts. Exit's status is 1
after crash loops of all nodes; else that of the worst end since the stop (or the quiet, as nothing makes up for a death
from then on): 2 for a node that was killed or ended with 2, 1 for one that ended otherwise than well, 0.
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grete.swarm import exits, rules, telling
from grete.swarm.actions import Action
from grete.swarm.backoff import Backoff
from grete.swarm.course import Course
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.lateness import Lateness
from grete.swarm.limits import Limits
from grete.swarm.lives import Lives

if TYPE_CHECKING:
    from grete.swarm.report import Report

__all__ = ["Manager", "NodeFacts", "Phase"]


class Manager:
    """Decides for all nodes of a swarm.

    The contract of whoever drives it: `now` is seconds of one monotonic clock. After waking up, tell first what the
    pipes said (all of it: reports that lie there are no silence), then deaths, then what users want; then `due(now)`;
    then do what `take()` returns, tell `forked` or `fork_failed` of each Fork, and take again until nothing is left.
    Then sleep until `deadline()` at most.
    What comes from a pipe names the process it came from (`pid`): a report of an earlier life does no harm then.
    """

    def __init__(self, nodes: int, limits: Limits) -> None:
        self._nodes = [NodeFacts(number) for number in range(nodes)]
        self.actions: list[Action] = []
        self._limits = limits
        self._backoff = Backoff(limits)
        self._lives = Lives(limits, self.actions, self._backoff)
        self._course = Course(self._nodes, limits, self.actions, self._lives, self._backoff)
        self._watch = rules.Watch(self._nodes, limits)
        self._lateness = Lateness(limits.report_timeout)

    @property
    def nodes(self) -> Sequence[NodeFacts]:
        """What is known of each node."""
        return self._nodes

    @property
    def stopping(self) -> bool:
        """Whether the swarm stops."""
        return self._course.stopping

    @property
    def quieted(self) -> bool:
        """Whether the swarm was made quiet."""
        return self._course.quieted

    @property
    def rolling(self) -> bool:
        """Whether a rolling restart is under way."""
        return self._course.rolling is not None

    @property
    def exit_status(self) -> int | None:
        """With what the swarm has ended; None before."""
        return self._course.exit_status

    def take(self) -> list[Action]:
        """What is to be done now. Nothing is said twice."""
        actions = self.actions.copy()
        self.actions.clear()
        return actions

    # What the mechanism tells

    def start(self, now: float) -> None:
        """Forks all nodes."""
        now = self._at(now)
        self._course.start(now)
        self._settle(now)

    def forked(self, now: float, node: int, pid: int) -> None:
        """A Fork has been done."""
        now, facts = self._at(now), self._forking(node)
        self._lives.begin(now, facts, pid)
        self.actions.append(telling.started(facts))
        self._course.began(now, facts)
        self._settle(now)

    def fork_failed(self, now: float, node: int, error: OSError) -> None:
        """A Fork could not be done: a life of no length."""
        now, facts = self._at(now), self._forking(node)
        facts.last_death = f"not forked: {error.strerror or error}"
        loops = self._backoff.count(now, facts, None)
        restart_in = self._course.restart_in(facts, at_once=False)
        self.actions.append(telling.fork_failed(facts, error, restart_in, self._course.why_down))
        self._course.go_on(now, facts, restart_in, loops)
        self._settle(now)

    def reported(self, now: float, node: int, report: "Report", pid: int | None = None) -> None:
        """A report has come."""
        now, facts = self._at(now), self._living(node, pid)
        if facts is None:
            return
        facts.last_report, facts.last_report_at, facts.heard_at = report, now, now
        if not facts.phase.serving:
            return
        if report.stopping:
            self.actions.append(telling.leaving(facts, self._limits.shutdown_timeout))
            self._lives.leave(now, facts)
        elif verdict := rules.judge(report, self._limits, self._lateness.away):
            self._object(now, facts, verdict)
        else:
            self._lives.place(now, facts, report.steady)
            if self.quieted:
                self._lives.quiet(facts)
        self._settle(now)

    def garbled(self, now: float, node: int, text: str, pid: int | None = None) -> None:
        """The node's pipe brought what is no report; nothing will be read from it any more."""
        now, facts = self._at(now), self._living(node, pid)
        if facts is not None and facts.phase.serving:
            text = f"{text:.300}"
            self._object(now, facts, rules.Verdict("pipe", f"sent what is no report ({text})", {"error": text}))
            self._settle(now)

    def hung_up(self, now: float, node: int, pid: int | None = None) -> None:
        """The node has closed its pipe. Most do that by dying, and are seen dead at once."""
        now, facts = self._at(now), self._living(node, pid)
        if facts is not None and facts.pipe_lost_at is None:
            facts.pipe_lost_at = now

    def died(self, now: float, node: int, status: int) -> None:
        """The node was reaped. `status`: exit code, or -signal."""
        now, facts = self._at(now), self._living(node, None)
        if facts is None:
            return
        facts.deaths += 1
        facts.deaths_by_reason[exits.reason(status, facts.why_stopping)] += 1
        facts.last_death = exits.words(status)
        loops = self._backoff.count(now, facts, facts.why_stopping)
        restart_in = self._course.restart_in(facts, at_once=self._course.ended(now, facts, status))
        self.actions.append(telling.died(now, facts, status, restart_in, self._course.why_down))
        self._lives.end(facts)
        self._course.go_on(now, facts, restart_in, loops)
        self._settle(now)

    def due(self, now: float) -> None:
        """Time has passed. After it, `deadline()` is later than `now`."""
        now = self._at(now)
        self._course.expire(now)
        for node in self._nodes:
            if node.next_at is not None and node.next_at <= now:
                self._lives.fork(now, node)
            elif verdict := self._watch.judge(now, node):
                self._object(now, node, verdict)
            else:
                self._lives.due(now, node)
        if not self.stopping and (seconds := self._watch.nobody(now)) is not None:
            self.actions.append(telling.nobody(len(self._nodes), seconds, self._limits.unsteady_timeout))
        self._course.due(now)
        self._settle(now)

    def deadline(self) -> float | None:
        """When `due` is to be called next, None when nothing but news can change anything."""
        times = [node.next_at for node in self._nodes]
        times += [self._lives.deadline(node) for node in self._nodes]
        if not self.stopping:
            times += [time for node in self._nodes for time in self._watch.deadlines(node)]
            times.append(self._watch.deadline())
        times.append(self._course.deadline(self._lateness.now))
        deadline = min((time for time in times if time is not None), default=math.inf)
        return None if deadline == math.inf else deadline

    # What users want

    def stop(self, now: float) -> None:
        """SIGINT, SIGTERM: all nodes stop, and then the swarm."""
        self._course.stop(self._at(now))

    def hurry(self, now: float) -> None:
        """The second SIGINT: handlers are not waited for any more."""
        self._course.hurry(self._at(now))

    def quiet(self, now: float) -> None:
        """SIGTSTP: what runs goes on, no more records are handed out, and no node is started any more."""
        self._course.quiet(self._at(now))

    def restart(self, now: float) -> None:
        """SIGHUP: each node that lives now is replaced, one after the other."""
        self._course.restart(self._at(now))

    def dump(self, now: float) -> None:
        """SIGTTIN: all nodes write their stacks."""
        self._at(now)
        if self.exit_status is not None:
            return
        living = [node for node in self._nodes if node.phase.alive]
        asked = [node.id for node in living if self._lives.dump(node)]
        self.actions.append(telling.dump(asked, [node.id for node in living if node.id not in asked]))

    # What follows

    def _at(self, now: float) -> float:
        """The time. If it has run away while nobody asked us, nobody was heard, either."""
        now, gap = self._lateness.at(now, self.deadline)
        if gap and not self.stopping:
            self._watch.excuse(gap)
            self._course.excuse(gap)
            self.actions.append(telling.late(gap))
        return now

    def _living(self, node: int, pid: int | None) -> NodeFacts | None:
        facts = self._nodes[node]
        return facts if facts.phase.alive and pid in {None, facts.pid} else None

    def _forking(self, node: int) -> NodeFacts:
        facts = self._nodes[node]
        if facts.phase is not Phase.FORKING:
            raise ValueError(f"node {node} is {facts.phase}: nobody has asked for a fork")
        return facts

    def _object(self, now: float, node: NodeFacts, verdict: rules.Verdict) -> None:
        self.actions.append(telling.stopping(node, verdict, self._course.why_down))
        self._lives.ask(now, node, verdict.reason)

    def _settle(self, now: float) -> None:
        self._watch.see(now)
        self._course.settle(now)
