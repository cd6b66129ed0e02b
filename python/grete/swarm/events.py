"""All events of the Manager: log records on the logger "grete", with their name as `event` and these fields beside it.

Times are seconds, sizes bytes. `node` is the node's number, `pid` its process.

Reasons of a stop (`reason`; NodeFacts has it as `why_stopping`):

| reason | why | stacks are dumped first |
|---|---|---|
| memory | a report had more resident memory than `max_rss`; one is enough | |
| gil | no thread got the GIL for `gil_timeout`; or a handler is overdue and holds it (5 s, or half of its time) | yes |
| handler | a handler ran longer than its `handler_timeout` | yes |
| membership | not steady for `unsteady_timeout` while another node was (or it is the only one) | |
| report | no report for `report_timeout` | yes, if it ever reported |
| pipe | what came through its pipe was no report, or it closed the pipe and lives on | |
| restart | its turn in a rolling restart | |
| itself | nobody asked it: its App stopped or failed, or somebody sent a signal to that process | |
| stop | the whole swarm stops | |
"""

from dataclasses import dataclass
from logging import DEBUG, ERROR, INFO, WARNING


@dataclass(frozen=True, slots=True)
class Described:
    """An event as users see it."""

    levels: tuple[int, ...]
    when: str
    fields: tuple[str, ...]


EVENTS = {
    "swarm.started": Described((INFO,), "the nodes are about to be forked", ("nodes",)),
    "swarm.steady": Described((INFO,), "all nodes are steady for the first time", ("nodes", "seconds")),
    "swarm.unsteady": Described(
        (WARNING,),
        "no node has been steady for unsteady_timeout; none is replaced for it. Once until one is steady again",
        ("nodes", "seconds", "limit"),
    ),
    "swarm.late": Described(
        (WARNING,),
        "the supervisor itself did not run (SIGSTOP, a machine asleep): silence in that time is held against no node",
        ("seconds",),
    ),
    "swarm.quiet": Described((INFO,), "all nodes are told to hand out no more records", ("nodes",)),
    "swarm.dump": Described(
        (INFO,),
        "all nodes are told to write their stacks; `skipped` are those that have not reported yet and so could not",
        ("nodes", "skipped"),
    ),
    "swarm.restarting": Described((INFO,), "a rolling restart begins, or begins anew", ("nodes",)),
    "swarm.restarted": Described((INFO,), "it is over: all are replaced and steady", ("nodes", "seconds")),
    "swarm.restart_failed": Described(
        (WARNING, ERROR),
        "it ends before its time, or does not begin; `reason` is unsteady, quiet or stop, `left` are the nodes that "
        "stay as they were, `blocking` those that are not steady",
        ("reason", "left", "blocking"),
    ),
    "swarm.crash_loop": Described(
        (ERROR,),
        "a node had crash_loop_after short lives in a row; it is tried again all the same. Once until it is well again",
        ("node", "lives", "last_death"),
    ),
    "swarm.given_up": Described((ERROR,), "every node is in a crash loop: the swarm ends with status 1", ("nodes",)),
    "swarm.stopping": Described((INFO,), "all nodes are asked to stop", ("nodes", "limit")),
    "swarm.hurried": Described((WARNING,), "a second signal: no handler is waited for", ("nodes", "limit")),
    "swarm.stopped": Described((INFO, ERROR), "all nodes are gone", ("status",)),
    "swarm.node.started": Described((INFO,), "a node was forked", ("node", "pid", "restarts")),
    "swarm.node.fork_failed": Described(
        (ERROR,), "a node could not be forked; `restart_in` as below", ("node", "error", "restart_in")
    ),
    "swarm.node.steady": Described(
        (INFO, DEBUG),
        "a node has its place in its groups, `seconds` after its start or (then DEBUG) after it lost it",
        ("node", "pid", "seconds"),
    ),
    "swarm.node.unsteady": Described((DEBUG,), "it has lost it: a rebalance, mostly", ("node", "pid")),
    "swarm.node.recovered": Described(
        (INFO,), "a node is well again after so many short lives in a row", ("node", "pid", "lives")
    ),
    "swarm.node.stopping": Described(
        (WARNING, INFO),
        "a node is asked to stop, or stops by itself. What does not belong to the reason is None",
        (
            "node", "pid", "reason", "seconds", "limit", "handler", "topic", "partition", "rss", "max_rss", "error",
        ),
    ),
    "swarm.node.killing": Described(
        (ERROR,), "it has not stopped in time and gets SIGKILL", ("node", "pid", "reason", "seconds")
    ),
    "swarm.node.unkillable": Described(
        (ERROR,), "it outlives SIGKILL: the kernel keeps it", ("node", "pid", "seconds")
    ),
    "swarm.node.died": Described(
        (INFO, WARNING, ERROR),
        "a process is gone. `status` is its exit code or -signal, `signal` that signal's name, `reason` that of the "
        "stop that we had asked for, `rss` what it said last; `restart_in` None: nothing takes its place",
        ("node", "pid", "status", "signal", "uptime", "reason", "rss", "restart_in"),
    ),
}  # fmt: skip
"""Name: what to expect."""
