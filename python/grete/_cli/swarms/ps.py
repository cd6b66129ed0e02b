"""Command `grete ps`."""

import json
import sys
from collections.abc import Iterator

import click

from grete._cli.swarms.discovery import find_swarms
from grete._cli.terminal import output
from grete._cli.terminal.escapes import printable
from grete._cli.terminal.table import Styled, Table, format_duration, format_size
from grete._swarm.status import health_checks
from grete._swarm.status.snapshot import NodeStatus, Status

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

_PROBLEM, _WARNING = "red", "yellow"
_STATE_STYLES = {"ready": "green", "backoff": _PROBLEM}


@click.command()
@click.argument("app", required=False)
@click.option(
    "--control", metavar="PATH", multiple=True, help="Ask at this socket; repeatable. Without: all swarms of this user."
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line for each swarm.")
def ps(app: str | None, control: tuple[str, ...], as_json: bool) -> None:
    """Shows the running swarms, or those of the App of this name: each node with its state, lanes and memory.

    PSS divides shared memory among the processes that share it, so the sum is the memory of the swarm; RSS counts it in
    each. Exit status 1: no swarm runs, or one did not answer within 5 s.
    """
    statuses, errors = find_swarms(app, control)
    for number, status in enumerate(statuses):
        if as_json:
            click.echo(json.dumps(status))
            continue
        if number:
            click.echo()
        output.show(*render(status))
    for error in errors:
        click.echo(f"Error: {printable(str(error))}", err=True)
    if errors:
        sys.exit(1)


def render(status: Status) -> Iterator[str | Table]:
    """Renders one swarm for people."""
    yield _headline(status)
    yield Table(_HEADINGS, [_row(node) for node in status["nodes"]])
    # A node's row has its state, but not the condition that the node waits for.
    for node in status["nodes"]:
        if node["waiting"]:
            yield Styled(f"! node {node['id']} is {node['state']}: {node['waiting']}", _WARNING)
        for problem in health_checks.work_problems(node):
            yield Styled(f"! {problem['text']}", _PROBLEM)


def _headline(status: Status) -> str:
    parts = [f"supervisor {status['pid']}", f"up {format_duration(status['uptime'])}"]
    if status["stopping"]:
        parts.append("stopping")
    elif status["rolling"]:
        parts.append("restarting one node after the other")
    if status["quiet"]:
        parts.append("quiet")
    own = status["memory"]
    if own is not None and own["rss"] is not None:
        pss = f", PSS {format_size(own['pss'])}" if own["pss"] is not None else ""
        parts.append(f"RSS {format_size(own['rss'])}{pss}")
    if status["probes"]:
        parts.append(f"probes at {' and '.join(status['probes'])}")
    return Styled(f"{status['app']}: {', '.join(parts)}", "bold")


def _row(node: NodeStatus) -> tuple[object, ...]:
    memory = node["memory"]
    return (
        node["id"],
        node["pid"],
        _state(node),
        _lanes(node),
        node["lag"],
        _oldest(node),
        format_duration(node["gil_wait"]),
        format_size(memory["rss"] if memory is not None else node["rss"]),
        format_size(memory["pss"] if memory is not None else node["pss"]),
        node["restarts"],
        node["last_death"],
        format_duration(node["uptime"]),
    )


def _state(node: NodeStatus) -> str:
    state = node["state"]
    if node["reason"] is not None:
        text = f"{state} ({node['reason']})"
    elif node["restart_in"] is not None:
        text = f"{state}, starts in {format_duration(node['restart_in'])}"
    else:
        text = f"{state}, quiet" if node["quiet"] else state
    return Styled(text, _STATE_STYLES.get(state, _WARNING))


def _lanes(node: NodeStatus) -> str | None:
    """Returns the number of lanes by state, like "4 (1 running, 3 idle)"; None before the first report."""
    lanes = node["lanes"]
    if not lanes:
        return None
    parts = [f"{count} {name}" for name, count in lanes.items() if count]
    return f"{sum(lanes.values())} ({', '.join(parts)})" if parts else "0"


def _oldest(node: NodeStatus) -> str | None:
    job = node["oldest"]
    return (
        f"{job['handler']} {job['topic']}[{job['partition']}] {format_duration(job['seconds'])}"
        if job is not None
        else None
    )
