"""The events in words. `grete.instrumentation.events` lists them with their fields."""

import errno
import signal
from collections.abc import Sequence
from logging import DEBUG, ERROR, INFO, WARNING
from typing import TYPE_CHECKING

from grete.swarm import exits
from grete.swarm.actions import Event
from grete.swarm.facts import NodeFacts, Phase

if TYPE_CHECKING:
    from grete.swarm.rules import Verdict

_WHY = {0: ", though nobody here asked it to", 3: ": nobody read its reports, so it took us for gone"}
_NOTHING = dict.fromkeys(("seconds", "limit", "handler", "topic", "partition", "rss", "max_rss", "error"))


def event(name: str, level: int, text: str, **fields: object) -> Event:
    return Event(name, level, text, fields)


def started(node: NodeFacts) -> Event:
    text = f"{_name(node)} was started" + (f", restart {node.restarts}" if node.restarts else "")
    return Event("swarm.node.started", INFO, text, {**_who(node), "restarts": node.restarts})


def fork_failed(node: NodeFacts, error: OSError, restart_in: float | None, stays: str | None) -> Event:
    cure = "; the machine or the container lacks memory or processes (pids.max, ulimit -u)" if _lacks(error) else ""
    text = f"node {node.id} could not be forked: {error}{cure}; {_then(restart_in, stays)}"
    return Event(
        "swarm.node.fork_failed", ERROR, text, {"node": node.id, "error": str(error), "restart_in": restart_in}
    )


def steady(now: float, node: NodeFacts) -> Event:
    first = node.first_steady is None
    seconds = now - (node.unsteady_since if node.unsteady_since is not None else now)
    text = f"{_name(node)} is steady {seconds:.1f} s after {'its start' if first else 'it was not any more'}"
    return Event("swarm.node.steady", INFO if first else DEBUG, text, {**_who(node), "seconds": seconds})


def unsteady(node: NodeFacts) -> Event:
    return Event("swarm.node.unsteady", DEBUG, f"{_name(node)} is not steady any more", _who(node))


def recovered(node: NodeFacts) -> Event:
    text = f"{_name(node)} is well again after {node.streak} short lives"
    return Event("swarm.node.recovered", INFO, text, {**_who(node), "lives": node.streak})


def stopping(node: NodeFacts, verdict: "Verdict", stays: str | None) -> Event:
    """For a reason of health."""
    then = "will be replaced" if stays is None else f"will not be replaced: {stays}"
    text = f"{_name(node)} {verdict.text}; it is asked to stop and {then}"
    return Event(
        "swarm.node.stopping", WARNING, text, {**_who(node), "reason": verdict.reason, **_NOTHING, **verdict.fields}
    )


def turn(node: NodeFacts, left: int) -> Event:
    """For a rolling restart."""
    text = f"{_name(node)} is asked to stop: its turn in the rolling restart, {left} after it"
    return Event("swarm.node.stopping", INFO, text, {**_who(node), "reason": "restart", **_NOTHING})


def leaving(node: NodeFacts, limit: float) -> Event:
    """By itself."""
    text = f"{_name(node)} stops by itself, nobody here asked it: its own log says why; it has {limit:g} s for it"
    return Event("swarm.node.stopping", WARNING, text, {**_who(node), "reason": "itself", **_NOTHING, "limit": limit})


def killing(now: float, node: NodeFacts) -> Event:
    seconds = now - (node.term_sent_at if node.term_sent_at is not None else node.since)
    text = f"{_name(node)} has not stopped in {seconds:.1f} s ({node.why_stopping}) and is killed"
    return Event("swarm.node.killing", ERROR, text, {**_who(node), "reason": node.why_stopping, "seconds": seconds})


def unkillable(now: float, node: NodeFacts) -> Event:
    seconds = now - node.since
    text = (
        f"{_name(node)} lives {seconds:.1f} s after SIGKILL: the kernel keeps it, mostly in a wait for a disk or a "
        f"network file system (/proc/{node.pid}/stack says where)"
    )
    return Event("swarm.node.unkillable", ERROR, text, {**_who(node), "seconds": seconds})


def died(now: float, node: NodeFacts, status: int, restart_in: float | None, stays: str | None) -> Event:
    """Before the facts of its life are forgotten. `stays`: why nothing takes its place."""
    uptime = now - (node.forked_at if node.forked_at is not None else now)
    reason, rss = node.why_stopping, node.last_report.rss if node.last_report is not None else None
    asked = node.term_sent_at is not None
    well = exits.clean(status, asked)
    if node.phase is Phase.KILLED and status == -signal.SIGKILL:
        end = f"was killed ({reason})"
    elif status == -signal.SIGKILL:
        last = f", its last report said {rss / 2**20:,.1f} MiB" if rss is not None else ""
        end = f"was killed by SIGKILL, not from us: the kernel's OOM killer, or somebody by hand{last}"
    elif asked and well:
        end = f"has stopped ({reason})"
    elif status < 0:
        end = f"was {exits.words(status)}"
    else:
        end = f"ended with {exits.words(status)}"
        if reason in {None, "itself"}:
            end += _WHY.get(status, ": its own log says why")
    level = ERROR if reason is None else WARNING
    if well:
        level = WARNING if reason in {None, "itself"} else INFO
    text = f"{_name(node)} {end}, after {uptime:.1f} s; {_then(restart_in, stays)}"
    return Event(
        "swarm.node.died",
        level,
        text,
        {
            **_who(node),
            "status": status,
            "signal": exits.name(-status) if status < 0 else None,
            "uptime": uptime,
            "reason": reason,
            "rss": rss,
            "restart_in": restart_in,
        },
    )


def nobody(number: int, seconds: float, limit: float) -> Event:
    text = (
        f"none of {count(number)} has been steady for {seconds:.1f} s: is Kafka to be reached? They stay as they are, "
        "as new ones would do no better"
    )
    return event("swarm.unsteady", WARNING, text, nodes=number, seconds=seconds, limit=limit)


def late(seconds: float) -> Event:
    text = (
        f"the supervisor itself did not run for up to {seconds:.1f} s (stopped by SIGSTOP, or with the machine?): that "
        "it heard nothing then is held against no node"
    )
    return event("swarm.late", WARNING, text, seconds=seconds)


def dump(asked: Sequence[int], skipped: Sequence[int]) -> Event:
    text = f"{nodes(asked)} write their stacks" if asked else "no node can write its stacks"
    if skipped:
        text += f"; not {nodes(skipped)}: just starting, or just ending"
    return event("swarm.dump", INFO, text, nodes=list(asked), skipped=list(skipped))


def restart_failed(level: int, reason: str, text: str, left: Sequence[int], blocking: Sequence[NodeFacts]) -> Event:
    if left:
        text += f"; not replaced: {nodes(left)}"
    fields = {"reason": reason, "left": list(left), "blocking": [node.id for node in blocking]}
    return Event("swarm.restart_failed", level, text, fields)


def blocking(nodes: Sequence[NodeFacts], limit: float) -> str:
    """Why a rolling restart does not go on."""
    names = ", ".join(f"node {node.id} ({node.phase})" for node in nodes)
    return f"the rolling restart ends: it has waited {limit:g} s for {names} to be steady"


def nodes(numbers: Sequence[int]) -> str:
    """As in "nodes 1, 2"."""
    return f"node{'' if len(numbers) == 1 else 's'} {', '.join(map(str, numbers))}"


def count(number: int) -> str:
    """As in "4 nodes"."""
    return f"{number} node{'' if number == 1 else 's'}"


def _who(node: NodeFacts) -> dict[str, int | None]:
    return {"node": node.id, "pid": node.pid}


def _name(node: NodeFacts) -> str:
    return f"node {node.id} (pid {node.pid})"


def _then(restart_in: float | None, stays: str | None) -> str:
    if restart_in is None:
        return f"it stays down: {stays}"
    return f"the next one is forked in {restart_in:g} s" if restart_in else "the next one is forked now"


def _lacks(error: OSError) -> bool:
    return error.errno in (errno.EAGAIN, errno.ENOMEM)
