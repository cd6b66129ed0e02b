"""Part "jobs": handlers whose spans go to an agent that takes them, or does not."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .catalogue import AGENTS, JOBS
from .measurement import Bench, Measurement, Traced
from .sink import sink

TIMEOUT = 60.0
# Many short windows beside each other, because what else the machine does comes and goes.
MORE_ROUNDS = 2
LONGER = 1.5


def measure(bench: Bench, found: Measurement) -> None:
    """Round by round, each agent beside a process of its own."""
    lines: dict[tuple[str, str], list[dict[str, Any]]] = {}
    with ExitStack() as stack:
        urls = {
            name: "none" if mode is None else stack.enter_context(sink(mode, bench.sink_core))
            for name, (_, mode) in AGENTS.items()
        }
        for number in range(MORE_ROUNDS * bench.rounds):
            say(f"jobs: round {number + 1} of {MORE_ROUNDS * bench.rounds}")
            for name, url in urls.items():
                try:
                    client_output = run_client(
                        [*JOBS.command, url, str(LONGER * bench.seconds)], bench.client_core, TIMEOUT
                    )
                except ClientFailedError as error:
                    found.failed(f"jobs, {name}", error)
                    continue
                if url != "none" and not traced(client_output):
                    found.failed(f"jobs, {name}", ValueError("there are jobs without spans"))
                    continue
                for line in client_output:
                    lines.setdefault((line["handler"], name), []).append(line)
    found.jobs += [row(name, handler, rows) for (handler, name), rows in sorted(lines.items(), key=_place)]


def traced(lines: list[dict[str, Any]]) -> bool:
    """Whether each job has had a span. Spans are counted from the process's start, jobs in each window."""
    spans, jobs = int(lines[-1]["finished"]), sum(int(line["jobs"]) for line in lines)
    return spans >= jobs


def _place(item: tuple[tuple[str, str], object]) -> tuple[str, int]:
    handler, name = item[0]
    return handler, list(AGENTS).index(name)


def row(agent: str, handler: str, lines: list[dict[str, Any]]) -> Traced:
    """Row of all rounds of one agent and one handler."""
    last = lines[-1]
    return Traced(
        agent,
        AGENTS[agent][0],
        handler,
        tuple(line["jobs"] / line["seconds"] for line in lines),
        tuple(1e6 * line["cpu_seconds"] / line["jobs"] for line in lines),
        max(line["peak_rss"] for line in lines),
        *(last[name] for name in ("finished", "sent", "waiting", "waiting_bytes", "dropped")),
    )
