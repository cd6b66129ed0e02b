"""Where the swarm as a whole is heading: on, quiet, round in a rolling restart, to its end."""

from collections.abc import Sequence
from logging import ERROR, INFO, WARNING

from grete.swarm import exits, telling
from grete.swarm.actions import Action, Exit
from grete.swarm.backoff import Backoff
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.limits import HURRY, Limits
from grete.swarm.lives import Lives
from grete.swarm.rolling import Rolling


class Course:
    """What users want of the whole swarm, and what becomes of it."""

    def __init__(
        self, nodes: Sequence[NodeFacts], limits: Limits, actions: list[Action], lives: Lives, backoff: Backoff
    ) -> None:
        self.stopping = False
        self.quieted = False
        self.rolling: Rolling | None = None
        self.exit_status: int | None = None
        self._nodes = nodes
        self._limits = limits
        self._actions = actions
        self._lives = lives
        self._backoff = backoff
        self._started_at = 0.0
        self._all_steady = False
        self._hurried = False
        self._given_up = False
        self._worst = exits.CLEAN

    def start(self, now: float) -> None:
        """Forks all nodes."""
        self._started_at = now
        count = len(self._nodes)
        self._tell("swarm.started", INFO, f"{telling.count(count)} will be forked", nodes=count)
        for node in self._nodes:
            self._lives.fork(now, node)

    def stop(self, now: float) -> None:
        """All nodes stop, and then the swarm."""
        if not self.stopping:
            alive, limit = self._alive(), self._limits.shutdown_timeout
            text = f"the swarm stops: {telling.count(alive)} asked, {limit:g} s"
            self._tell("swarm.stopping", INFO, text, nodes=alive, limit=limit)
            self._stop(now)

    def hurry(self, now: float) -> None:
        """A stop that waits for no handler."""
        self.stop(now)
        if self._hurried or self.exit_status is not None:
            return
        self._hurried = True
        limit = self._limits.kill_grace + HURRY
        text = f"asked to stop again: no handler is waited for, and what is not over in {limit:g} s is killed"
        self._tell("swarm.hurried", WARNING, text, nodes=self._alive(), limit=limit)
        for node in self._nodes:
            self._lives.hurry(now, node)

    def quiet(self, now: float) -> None:
        """No more records for anybody, and no more lives."""
        if self.stopping or self.quieted:
            return
        self.quieted = True
        alive = self._alive()
        text = f"quiet: what runs in {telling.count(alive)} goes on; no more records, and no more nodes"
        self._tell("swarm.quiet", INFO, text, nodes=alive)
        if self.rolling is not None:
            text = "the rolling restart ends: the swarm is quiet from now on"
            self._actions.append(telling.restart_failed(WARNING, "quiet", text, self.rolling.left, []))
            self.rolling = None
        for node in self._nodes:
            self._lives.withdraw(now, node)
            self._lives.quiet(node)

    def restart(self, now: float) -> None:
        """All that live now are replaced, one after the other."""
        if self.exit_status is not None:
            return
        if (why := self.why_down) is not None:
            reason = "stop" if self.stopping else "quiet"
            self._actions.append(telling.restart_failed(WARNING, reason, f"no rolling restart: {why}", [], []))
            return
        if self.rolling is None:
            self.rolling = Rolling(now, self._nodes, self._limits.unsteady_timeout)
        else:
            self.rolling.again(now)
        left = self.rolling.left
        text = (
            f"rolling restart of {telling.nodes(left)}, one after the other" if left else "rolling restart: none lives"
        )
        self._tell("swarm.restarting", INFO, text, nodes=list(left))

    def began(self, now: float, node: NodeFacts) -> None:
        """A process is there: perhaps too late."""
        if self.stopping:
            self._lives.ask(now, node, "stop")
        if self._hurried:
            self._lives.hurry(now, node)

    def ended(self, now: float, node: NodeFacts, status: int) -> bool:
        """A process is gone. Returns whether the next one comes at once."""
        if self.why_down is not None:
            # Nothing makes up for this end by taking the node's place.
            asked, killed = node.term_sent_at is not None, node.phase is Phase.KILLED
            self._worst = max(self._worst, exits.share(status, asked, killed))
        return self.rolling is not None and self.rolling.died(now, node)

    @property
    def why_down(self) -> str | None:
        """Why nodes that are dead stay so; None while they do not."""
        if self.stopping:
            return "the swarm stops"
        return "the swarm is quiet" if self.quieted else None

    def restart_in(self, node: NodeFacts, at_once: bool) -> float | None:
        """When the next life of a dead node begins, in seconds; None: never."""
        if self.why_down is not None:
            return None
        return 0.0 if at_once else self._backoff.delay(node)

    def go_on(self, now: float, node: NodeFacts, restart_in: float | None, loops: bool) -> None:
        """After the end of a life. `loops`: a crash loop begins with it."""
        if restart_in is None:
            node.enter(Phase.DOWN, now)
            return
        node.next_at = now + restart_in
        node.enter(Phase.BACKOFF, now)
        if loops:
            self._looped(now, node)
        if restart_in == 0 and node.phase is Phase.BACKOFF:
            self._lives.fork(now, node)

    def settle(self, now: float) -> None:
        """After anything has changed: is the end reached, are all steady?"""
        if self.stopping:
            if self.exit_status is None and not any(node.phase.alive or _awaited(node) for node in self._nodes):
                self._exit()
            return
        if not self._all_steady and all(node.phase is Phase.STEADY for node in self._nodes):
            self._all_steady = True
            count, seconds = len(self._nodes), now - self._started_at
            text = f"all nodes ({count}) are steady, {seconds:.1f} s after the start"
            self._tell("swarm.steady", INFO, text, nodes=count, seconds=seconds)

    def expire(self, now: float) -> None:
        """Before the rules: who has been waited for in vain is named as it was."""
        if self.rolling is not None and not self.rolling.ready:
            self._give_up_rolling(now, self.rolling)

    def due(self, now: float) -> None:
        """Whose turn is it? Not before all news is told: beside a node's report that it is steady may lie its death."""
        if self.rolling is not None:
            self._roll(now, self.rolling)

    def deadline(self, now: float) -> float | None:
        """When a rolling restart goes on, or has waited for long enough."""
        if self.rolling is None:
            return None
        return now if self.rolling.ready else self.rolling.deadline()

    def excuse(self, gap: float) -> None:
        """The supervisor did not run for that long."""
        if self.rolling is not None:
            self.rolling.excuse(gap)

    def _looped(self, now: float, node: NodeFacts) -> None:
        """The node is in a crash loop from now on."""
        text = (
            f"node {node.id} is in a crash loop: {node.streak} short lives in a row, and the last one ended so: "
            f"{node.last_death}; it is tried again all the same"
        )
        self._tell("swarm.crash_loop", ERROR, text, node=node.id, lives=node.streak, last_death=node.last_death)
        if all(other.looping for other in self._nodes):
            self._given_up = True
            text = "every node is in a crash loop: the swarm gives up and ends with status 1"
            self._tell("swarm.given_up", ERROR, text, nodes=len(self._nodes))
            self._stop(now)

    def _roll(self, now: float, rolling: Rolling) -> None:
        if (node := rolling.next(now)) is not None:
            self._actions.append(telling.turn(node, len(rolling.left)))
            self._lives.ask(now, node, "restart")
        elif rolling.over:
            self.rolling = None
            count, seconds = rolling.replaced, now - rolling.since
            text = f"the rolling restart is over: {telling.count(count)} replaced in {seconds:.1f} s"
            self._tell("swarm.restarted", INFO, text, nodes=count, seconds=seconds)
        else:
            self._give_up_rolling(now, rolling)

    def _give_up_rolling(self, now: float, rolling: Rolling) -> None:
        if blocking := rolling.blocking(now):
            self.rolling = None
            text = telling.blocking(blocking, self._limits.unsteady_timeout)
            self._actions.append(telling.restart_failed(ERROR, "unsteady", text, rolling.left, blocking))

    def _stop(self, now: float) -> None:
        self.stopping, self.rolling = True, None
        for node in self._nodes:
            self._lives.withdraw(now, node)
            if node.phase.serving:
                self._lives.ask(now, node, "stop")
        self.settle(now)

    def _exit(self) -> None:
        self.exit_status = status = exits.FAILED if self._given_up else self._worst
        text = f"all nodes are gone; the swarm ends with status {status}{exits.MEANING[status]}"
        self._tell("swarm.stopped", ERROR if status else INFO, text, status=status)
        self._actions.append(Exit(status))

    def _alive(self) -> int:
        return sum(node.phase.alive for node in self._nodes)

    def _tell(self, name: str, level: int, text: str, **fields: object) -> None:
        self._actions.append(telling.event(name, level, text, **fields))


def _awaited(node: NodeFacts) -> bool:
    """Whether somebody is just forking it."""
    return node.phase is Phase.FORKING
