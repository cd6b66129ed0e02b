"""The panels of docs/grafana/grete.json, row by row."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tests.unit.exposition import CATALOGUE


def m(name: str, *more: str) -> str:
    """The metric, of what is chosen above the panels; `more`: other matchers."""
    family = name.removesuffix("_bucket")
    labels = CATALOGUE[family][2]
    chosen = ["job", "instance"]
    if not family.startswith("grete_swarm_") or "node" in labels:
        chosen.append("node")
    chosen += [label for label in ("handler", "topic") if label in labels]
    matchers = [f'{label}=~"${label}"' for label in chosen]
    return f"{name}{{{', '.join([*matchers, *more])}}}"


def rate(name: str, by: str, *more: str) -> str:
    """How fast the counter grows, summed."""
    return f"sum by ({by}) (rate({m(name, *more)}[$__rate_interval]))"


def grown(name: str, by: str) -> str:
    """By how much the counter has grown, summed."""
    return f"sum by ({by}) (increase({m(name)}[$__rate_interval]))"


@dataclass(frozen=True)
class Query:
    """An expression, and how its series are called."""

    expr: str
    legend: str = ""


@dataclass(frozen=True)
class Panel:
    """A panel. `says` is shown with its title: what it shows, and what to do."""

    title: str
    says: str
    queries: tuple[Query, ...]
    unit: str = "short"
    kind: str = "timeseries"
    width: int = 8
    height: int = 8
    lines: tuple[tuple[float, str], ...] = ()
    """Thresholds: from this value on in this colour."""
    options: dict[str, Any] = field(default_factory=dict)
    stacked: bool = False


PROCESS = "instance, node"
HANDLER = "handler"
LANE = "handler, topic"
DURATION = "grete_handler_duration_seconds_bucket"

ROWS: list[tuple[str, list[Panel]]] = [
    (
        "Health",
        [
            Panel(
                "Not live",
                "Processes whose /livez says no. Ask it for the handler, the partition and the seconds.",
                (Query(f"count({m('grete_live')}) - sum({m('grete_live')})"),),
                kind="stat",
                width=4,
                height=4,
                lines=((0.0, "green"), (1.0, "red")),
            ),
            Panel(
                "Ready",
                "Processes that are ready to work, of all that are there.",
                (Query(f"sum({m('grete_ready')}) / count({m('grete_ready')})"),),
                unit="percentunit",
                kind="stat",
                width=4,
                height=4,
                lines=((0.0, "red"), (0.5, "orange"), (1.0, "green")),
            ),
            Panel(
                "Oldest record not done",
                "How long the oldest record has waited: the one number to watch.",
                (Query(f"max({m('grete_lag_seconds')})"),),
                unit="s",
                kind="stat",
                width=4,
                height=4,
                lines=((0.0, "green"), (60.0, "orange"), (300.0, "red")),
            ),
            Panel(
                "Oldest job",
                "How long the longest call has run. If that never ends, it hangs: kill -TTIN shows where.",
                (Query(f"max({m('grete_oldest_job_seconds')})"),),
                unit="s",
                kind="stat",
                width=4,
                height=4,
                lines=((0.0, "green"), (30.0, "orange"), (300.0, "red")),
            ),
            Panel(
                "Dead letters, 1 h",
                "`grete dlq` shows why each failed, and replays them.",
                (Query(f"sum(increase({m('grete_dead_letters_total')}[1h]))"),),
                kind="stat",
                width=4,
                height=4,
                lines=((0.0, "green"), (1.0, "red")),
            ),
            Panel(
                "Versions",
                "Processes by Grete's version. Two at once are a roll-out.",
                (Query(f"count by (version) ({m('grete_info')})", "{{version}}"),),
                kind="stat",
                width=4,
                height=4,
                options={"textMode": "value_and_name"},
            ),
        ],
    ),
    (
        "Lag",
        [
            Panel(
                "Lag in seconds",
                "Age of the oldest record that is not done. Alert on this one.",
                (Query(f"max by ({LANE}) ({m('grete_lag_seconds')})", "{{handler}} {{topic}}"),),
                unit="s",
            ),
            Panel(
                "Lag in records",
                "Records that are not done. Grows everywhere: too slow. On one partition: a hot key, or it waits.",
                (Query(f"sum by ({LANE}) ({m('grete_lag_records')})", "{{handler}} {{topic}}"),),
            ),
            Panel(
                "Seconds since the last progress",
                "Of the partition that has waited longest, where there is lag: in a handler, in retries, or paused.",
                (
                    Query(
                        f"max by ({LANE}) ((time() - {m('grete_last_progress_timestamp_seconds')}) "
                        f"and ({m('grete_lag_records')} > 0))",
                        "{{handler}} {{topic}}",
                    ),
                ),
                unit="s",
            ),
            Panel(
                "Partitions by what they do",
                "Many ready: more workers. Paused: retries that wait. Leaving: a handler holds up a rebalance.",
                (Query(f"sum by (state) ({m('grete_lanes')})", "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Stalled partitions",
                "Not moved for stall_after although records wait, by reason. The log (partition.stalled) names them.",
                (Query(f"sum by (reason) ({m('grete_stalled_lanes')}) > 0", "{{reason}}"),),
                stacked=True,
            ),
            Panel(
                "Worst partitions",
                "Where the oldest records wait just now.",
                (Query(f"topk(10, {m('grete_lag_seconds')})"),),
                unit="s",
                kind="table",
            ),
            Panel(
                "Partitions that cannot be read",
                "GET /readyz and the log (partition.failed) have each with its error and the cure.",
                (Query(f"sum by ({LANE}) ({m('grete_partition_failed')})", "{{handler}} {{topic}}"),),
            ),
            Panel(
                "Waiting for handlers",
                "Fetched and not handed out. At the limit: handlers are the bottleneck. Near 0 with lag: the network "
                "is, or the broker. Partitions beyond 512 of a process are summed.",
                (
                    Query(f"sum by ({LANE}) ({m('grete_queued_bytes')})", "{{handler}} {{topic}}"),
                    Query(f"sum({m('grete_aggregated_lanes')}) > 0", "partitions that are summed (count)"),
                ),
                unit="bytes",
            ),
        ],
    ),
    (
        "Throughput",
        [
            Panel(
                "Records done", "A second.", (Query(rate("grete_records_total", HANDLER), "{{handler}}"),), unit="rps"
            ),
            Panel(
                "Jobs done",
                "Calls of handlers a second.",
                (Query(rate("grete_jobs_total", HANDLER), "{{handler}}"),),
                unit="ops",
            ),
            Panel(
                "Records per job",
                "How large batches are. Small ones under load cost throughput: max_wait lets them grow.",
                (
                    Query(
                        f"{rate('grete_records_total', HANDLER)} / {rate('grete_jobs_total', HANDLER)}",
                        "{{handler}}",
                    ),
                ),
            ),
            Panel(
                "Fetched",
                "Bytes a second, compressed as they come.",
                (Query(rate("grete_fetched_bytes_total", "client"), "{{client}}"),),
                unit="Bps",
            ),
            Panel(
                "Records fetched",
                "A second.",
                (Query(rate("grete_fetched_records_total", "client"), "{{client}}"),),
                unit="rps",
            ),
            Panel(
                "Workers",
                "All busy all the time while lag grows: more workers; or a swarm, where handlers are Python alone.",
                (
                    Query(f"sum({m('grete_busy_workers')})", "busy"),
                    Query(f"sum({m('grete_workers')})", "there are"),
                ),
            ),
        ],
    ),
    (
        "Handlers",
        [
            Panel(
                "Duration of jobs",
                "How many jobs took how long.",
                (
                    Query(
                        f"sum by (le) (increase({m('grete_handler_duration_seconds_bucket')}[$__rate_interval]))",
                        "{{le}}",
                    ),
                ),
                unit="s",
                kind="heatmap",
            ),
            Panel(
                "p50 and p99",
                "Of the duration of jobs.",
                tuple(
                    Query(
                        f"histogram_quantile({quantile}, {rate(DURATION, 'handler, le')})",
                        f"{{{{handler}}}} {name}",
                    )
                    for quantile, name in ((0.5, "p50"), (0.99, "p99"))
                ),
                unit="s",
            ),
            Panel(
                "Under way",
                "Jobs that run, and how long the oldest has run.",
                (
                    Query(f"sum by ({HANDLER}) ({m('grete_jobs_running')})", "{{handler}}"),
                    Query(f"max by ({HANDLER}) ({m('grete_oldest_job_seconds')})", "{{handler}}, oldest (s)"),
                ),
            ),
            Panel(
                "Failures and retries",
                "A second. The log has the traceback; while something is retried, its lane waits.",
                (
                    Query(rate("grete_job_failures_total", HANDLER), "{{handler}} failed"),
                    Query(rate("grete_retries_total", HANDLER), "{{handler}} retried"),
                ),
                unit="ops",
            ),
            Panel(
                "Records given up",
                "To a dead letter topic; too old. Skipped: done before (offset_map), or given up (at most once).",
                (
                    Query(grown("grete_dead_letters_total", HANDLER), "{{handler}} dead letters"),
                    Query(grown("grete_expired_records_total", HANDLER), "{{handler}} expired"),
                    Query(grown("grete_skipped_records_total", HANDLER), "{{handler}} skipped"),
                ),
            ),
            Panel(
                "Duplicates",
                "Records that dedup has left out. Forgotten ids: dedup_memory is full, so duplicates pass.",
                (
                    Query(grown("grete_duplicate_records_total", HANDLER), "{{handler}} duplicates"),
                    Query(grown("grete_dedup_forgotten_ids_total", HANDLER), "{{handler}} forgotten ids"),
                ),
            ),
            Panel(
                "Too long",
                "Jobs beyond stall_after, and beyond handler_timeout (a swarm replaces the node then).",
                (
                    Query(grown("grete_stalls_total", HANDLER), "{{handler}} stalled"),
                    Query(grown("grete_handler_timeouts_total", HANDLER), "{{handler}} timed out"),
                ),
            ),
        ],
    ),
    (
        "Groups",
        [
            Panel(
                "Rebalances",
                "Keeps on growing: processes restart, or sessions time out. Lost partitions may be done twice.",
                (
                    Query(grown("grete_rebalances_total", "group"), "{{group}}"),
                    Query(grown("grete_lost_partitions_total", "group"), "{{group}} partitions lost"),
                ),
            ),
            Panel(
                "Commits",
                "A second. What is not committed is done again after a restart.",
                (
                    Query(rate("grete_commits_total", "group"), "{{group}}"),
                    Query(rate("grete_commit_failures_total", "group"), "{{group}} failed"),
                ),
                unit="ops",
            ),
            Panel(
                "Transactions",
                "A second, of exactly-once jobs. What was aborted is sent again; the log names the cause.",
                (
                    Query(rate("grete_transactions_total", "group"), "{{group}}"),
                    Query(rate("grete_aborted_transactions_total", "group"), "{{group}} aborted"),
                ),
                unit="ops",
            ),
            Panel(
                "Members",
                "Partitions that each has, and members that have not got their place.",
                (
                    Query(f"sum by (group, {PROCESS}) ({m('grete_partitions')})", "{{group}} {{instance}} {{node}}"),
                    Query(f"count by (group) ({m('grete_group_ready')} == 0)", "{{group}} unsteady members"),
                ),
            ),
        ],
    ),
    (
        "Producers",
        [
            Panel(
                "Records produced",
                "A second: acknowledged, not written, and those whose outcome is unknown.",
                (
                    Query(rate("grete_produced_records_total", "client"), "{{client}}"),
                    Query(rate("grete_produce_failures_total", "client"), "{{client}} failed"),
                    Query(rate("grete_produce_retries_total", "client"), "{{client}} batches sent again"),
                ),
                unit="rps",
            ),
            Panel(
                "Bytes produced",
                "A second.",
                (Query(rate("grete_produced_bytes_total", "client"), "{{client}}"),),
                unit="Bps",
            ),
            Panel(
                "Waiting for acknowledgements",
                "Grows: brokers are slower than you produce. At buffer.memory, produce blocks.",
                (
                    Query(f"sum by (client) ({m('grete_producer_buffer_bytes')})", "{{client}} bytes"),
                    Query(f"sum by (client) ({m('grete_producer_pending_records')})", "{{client}} records"),
                ),
            ),
        ],
    ),
    (
        "Processes",
        [
            Panel(
                "Memory",
                "Resident, shared pages in full; of it, records that wait to be done or acknowledged.",
                (
                    Query(f"max by ({PROCESS}) ({m('grete_process_resident_memory_bytes')})", "{{instance}} {{node}}"),
                    Query(f"sum by ({PROCESS}) ({m('grete_buffer_bytes')})", "{{instance}} {{node}} fetched"),
                ),
                unit="bytes",
            ),
            Panel(
                "CPU",
                "Cores that are used. Near 1 with one process: Python holds it back.",
                (Query(rate("grete_process_cpu_seconds_total", PROCESS), "{{instance}} {{node}}"),),
            ),
            Panel(
                "Wait for the GIL",
                "Above 1 s: C code that does not give it back.",
                (Query(f"max by ({PROCESS}) ({m('grete_gil_wait_seconds')})", "{{instance}} {{node}}"),),
                unit="s",
            ),
            Panel(
                "Wait for the event loop",
                "Above 1 s: a coroutine that blocks, and all async handlers wait; the log names it (loop.blocked).",
                (
                    Query(f"max by ({PROCESS}) ({m('grete_loop_wait_seconds')})", "{{instance}} {{node}}"),
                    Query(grown("grete_loop_blocked_total", PROCESS), "{{instance}} {{node}} blocked"),
                ),
                unit="s",
            ),
            Panel(
                "Connections to brokers",
                "Open ones; and how many were opened again.",
                (
                    Query(f"sum by (client) ({m('grete_connections')})", "{{client}}"),
                    Query(grown("grete_reconnects_total", "client"), "{{client}} opened again"),
                ),
            ),
            Panel(
                "Open descriptors",
                "Grows without end: files or connections are not closed.",
                (Query(f"max by ({PROCESS}) ({m('grete_process_open_fds')})", "{{instance}} {{node}}"),),
            ),
            Panel(
                "Up since",
                "Age of each process.",
                (
                    Query(
                        f"time() - max by ({PROCESS}) ({m('grete_process_start_time_seconds')})",
                        "{{instance}} {{node}}",
                    ),
                ),
                unit="s",
            ),
        ],
    ),
    (
        "Swarm",
        [
            Panel(
                "Nodes by state",
                "`grete ps` names who is not steady, and why.",
                (Query(f"sum by (state) ({m('grete_swarm_nodes')})", "{{state}}"),),
                stacked=True,
            ),
            Panel(
                "Ends of nodes",
                "By reason. A SIGKILL that Grete has not sent is mostly the OOM killer's.",
                (Query(f"{grown('grete_swarm_exits_total', 'node, reason')} > 0", "node {{node}} {{reason}}"),),
                kind="timeseries",
            ),
            Panel(
                "Restarts, and what is missing",
                "Restarts of each node; nodes of whose metrics something is missing.",
                (
                    Query(grown("grete_swarm_restarts_total", "node"), "node {{node}}"),
                    Query(f"count({m('grete_swarm_metrics_complete')} == 0)", "nodes without (all) metrics"),
                ),
            ),
            Panel(
                "Uptime of nodes",
                "Young all the time: a crash loop.",
                (Query(f"min by (instance, node) ({m('grete_swarm_node_uptime_seconds')})", "{{instance}} {{node}}"),),
                unit="s",
            ),
            Panel(
                "Age of reports",
                "Above 5 s: stopped, swapped out, or starved of CPU.",
                (Query(f"max by (instance, node) ({m('grete_swarm_report_age_seconds')})", "{{instance}} {{node}}"),),
                unit="s",
            ),
            Panel(
                "Memory of the supervisor",
                "It does not grow.",
                (Query(m("grete_swarm_supervisor_memory_bytes"), "{{instance}}"),),
                unit="bytes",
            ),
        ],
    ),
]
