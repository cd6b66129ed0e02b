"""`grete ps`."""

import json
import sys
from collections.abc import Iterator

import click

from grete.cli.render import printable
from grete.cli.swarms import gather
from grete.cli.table import size, span, table
from grete.swarm import verdicts
from grete.swarm.status import NodeStatus, Status

_HEADINGS = (
    "NODE",
    "PID",
    "STATE",
    "LANES",
    "LAG",
    "OLDEST JOB",
    "GIL WAIT",
    "RSS",
    "PSS",
    "RESTARTS",
    "LAST DEATH",
    "UPTIME",
)


@click.command()
@click.argument("app", required=False)
@click.option(
    "--control", metavar="PATH", multiple=True, help="Ask at this socket; repeatable. Without: all swarms of this user."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line for each swarm.")
def ps(app: str | None, control: tuple[str, ...], as_json: bool) -> None:
    """Shows the swarms that run, or those of the App of this name: each node with its state, lanes and memory.

    PSS counts what processes share by their number, so that the sum is what the swarm takes; RSS counts it in each.
    Exit status 1: none runs, or one did not answer within 5 s.
    """
    told, errors = gather(app, control)
    for number, status in enumerate(told):
        if as_json:
            click.echo(json.dumps(status))
            continue
        if number:
            click.echo()
        for line in shown(status):
            click.echo(line)
    for error in errors:
        click.echo(f"Error: {printable(str(error))}", err=True)
    if errors:
        sys.exit(1)


def shown(status: Status) -> Iterator[str]:
    """One swarm, for people."""
    yield _headline(status)
    rows = table(_HEADINGS, (_row(node) for node in status["nodes"]))
    yield from map(printable, rows.splitlines())
    # What a node's state says is in its row.
    for node in status["nodes"]:
        for problem in verdicts.of_work(node):
            yield printable(f"! {problem['text']}")


def _headline(status: Status) -> str:
    parts = [f"supervisor {status['pid']}", f"up {span(status['uptime'])}"]
    if status["stopping"]:
        parts.append("stopping")
    elif status["rolling"]:
        parts.append("restarting one node after the other")
    if status["quiet"]:
        parts.append("quiet")
    own = status["memory"]
    if own is not None and own["rss"] is not None:
        pss = f", PSS {size(own['pss'])}" if own["pss"] is not None else ""
        parts.append(f"RSS {size(own['rss'])}{pss}")
    if status["probes"]:
        parts.append(f"probes at {' and '.join(status['probes'])}")
    return printable(f"{status['app']}: {', '.join(parts)}")


def _row(node: NodeStatus) -> tuple[object, ...]:
    memory = node["memory"]
    return (
        node["id"],
        node["pid"],
        _state(node),
        _lanes(node),
        node["lag"],
        _oldest(node),
        span(node["gil_wait"]),
        size(memory["rss"] if memory is not None else node["rss"]),
        size(memory["pss"] if memory is not None else node["pss"]),
        node["restarts"],
        node["last_death"],
        span(node["uptime"]),
    )


def _state(node: NodeStatus) -> str:
    state = node["state"]
    if node["reason"] is not None:
        return f"{state} ({node['reason']})"
    if node["restart_in"] is not None:
        return f"{state}, starts in {span(node['restart_in'])}"
    return f"{state}, quiet" if node["quiet"] else state


def _lanes(node: NodeStatus) -> str | None:
    """As in "4 (1 running, 3 idle)"; None before the first report."""
    lanes = node["lanes"]
    if not lanes:
        return None
    parts = [f"{count} {name}" for name, count in lanes.items() if count]
    return f"{sum(lanes.values())} ({', '.join(parts)})" if parts else "0"


def _oldest(node: NodeStatus) -> str | None:
    job = node["oldest"]
    return f"{job['handler']} {job['topic']}[{job['partition']}] {span(job['seconds'])}" if job is not None else None
