"""One frame of `grete top`: a headline, and tables of processes, jobs and lanes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from grete._cli.terminal.table import Quantity, Styled, Table, format_duration, format_size
from grete._cli.top.trends import BLOCKS, SAMPLES, Trends, sparkline
from grete._plural import counted, plural
from grete._web.state.fleet import Fleet, Process, stall_reason
from grete._web.state.report import Job, Lane

_SPARK = SAMPLES
# Lines of a frame that are no rows: headline, empty lines, titles and headings.
_FURNITURE = 17
_ALL = 10_000
_ORDER = {"bad": 0, "wait": 1, "busy": 2, "ok": 3}
_STYLES = {"bad": "red", "wait": "yellow", "dead": "red", "running": "green", "quiet": "yellow", "stopping": "yellow"}

Part = str | Table


@dataclass(frozen=True, slots=True)
class Look:
    """Form of a frame. `rows`: lines of the terminal; None: all rows are shown. `blocks`: of sparklines."""

    rows: int | None = None
    blocks: str = BLOCKS


def make_frame(
    fleet: Fleet, trends: Trends, now: int, *, app: str | None = None, problem: str = "", look: Look | None = None
) -> list[Part]:
    """Makes a frame. `now`: milliseconds since 1970. `app`: only the processes of this App. `problem`: why no reports
    are read.
    """
    look = look or Look()
    found = [one for one in fleet if app in (None, one.facts.app) and one.report.state != "stopped"]
    found.sort(key=lambda one: (one.facts.app, one.facts.node or 0, one.facts.host, one.facts.pid))
    parts: list[Part] = [_headline(found, now)]
    if problem:
        parts.append(Styled(f"! {problem}", "red"))
    if not found:
        whose = f'no process of an App "{app}" reports' if app is not None else "no process reports"
        parts.append(f'{whose}: set web_reports="3s" in the App, or GRETE_WEB_REPORTS=3s')
        return parts
    room = _ALL if look.rows is None else max(look.rows - _FURNITURE, 6)
    problems = [(one, text) for one in found for text in one.problems(now)]
    parts += [Styled(f"! {_name(one)}: {text}", "red") for one, text in problems[: max(room // 6, 1)]]
    jobs = sorted(_jobs(found, now), key=lambda one: -one[1].age)
    lanes = sorted(_lanes(found, now), key=lambda one: (_ORDER[one[2]], -(one[1].lag or 0)))
    apps = {one.facts.app for one in found}
    # Each table gets a share of the lines; what one does not need is for the next.
    left = room - min(len(problems), max(room // 6, 1)) - len(apps)
    shown = min(len(found), max(left // 3, 2))
    left -= shown
    parts += ["", _apps(found, trends, now, look), "", *_cut(_processes(found, now), shown, "process", "processes")]
    if jobs:
        shown = min(len(jobs), max(left // 2, 2))
        left -= shown
        parts += ["", *_cut(_job_table(jobs), shown, "job")]
    if lanes:
        parts += ["", *_cut(_lane_table(lanes, trends, look), max(left, 3), "partition")]
    return parts


def _headline(found: Sequence[Process], now: int) -> str:
    alive = [one for one in found if one.is_alive(now)]
    reports = [one.report for one in alive]
    dead = len(found) - len(alive)
    at = datetime.fromtimestamp(now / 1000, UTC).astimezone()
    workers = sum(one.workers or 0 for one in reports)
    parts = [
        f"{at:%H:%M:%S}",
        f"{len(alive)} {plural(len(alive), 'process', 'processes')}" + (f", {dead} dead" if dead else ""),
        f"{sum(one.rate for one in alive):,.0f} records/s",
        f"lag {sum(one.lag or 0 for one in reports):,}",
        f"{sum(one.busy or 0 for one in reports):,} of {counted(workers, 'worker')} busy",
    ]
    return Styled("  ".join(parts), "bold")


def _apps(found: Sequence[Process], trends: Trends, now: int, look: Look) -> Table:
    by_app: dict[str, list[Process]] = {}
    for process in found:
        by_app.setdefault(process.facts.app, []).append(process)
    rows = []
    for app, members in by_app.items():
        alive = [one for one in members if one.is_alive(now)]
        totals = [one.report.totals for one in members]
        rows.append(
            (
                app,
                len(alive),
                sum(len(one.report.lanes) + one.report.lanes_left_out for one in alive),
                round(sum(one.rate for one in alive)),
                sparkline(trends.rate(app), _SPARK, look.blocks),
                sum(one.report.lag or 0 for one in alive),
                sparkline(trends.lag(app), _SPARK, look.blocks),
                sum(one.retries for one in totals),
                sum(one.failures for one in totals),
                sum(one.dead_letters for one in totals),
            )
        )
    return Table(
        ("APP", "PROCESSES", "LANES", "RECORDS/S", "1 MIN", "LAG", "1 MIN", "RETRIES", "FAILURES", "DEAD LETTERS"), rows
    )


def _processes(found: Sequence[Process], now: int) -> Table:
    # Those that need attention first; otherwise in order.
    ordered = sorted(found, key=lambda one: (one.is_alive(now), not one.problems(now)))
    return Table(
        ("PROCESS", "STATE", "LANES", "LAG", "RECORDS/S", "BUSY", "GIL WAIT", "CPU", "RSS", "UPTIME"),
        [_process_row(one, now) for one in ordered],
    )


def _process_row(process: Process, now: int) -> tuple[object, ...]:
    report, state = process.report, process.state(now)
    if not process.is_alive(now):
        return (_name(process), Styled(state, "red"), *[None] * 7, _duration(now - process.seen))
    return (
        _name(process),
        Styled(state, _STYLES.get(state, "yellow")),
        len(report.lanes) + report.lanes_left_out,
        report.lag,
        round(process.rate),
        None if report.workers is None else Quantity(f"{report.busy or 0}/{report.workers}"),
        _duration(report.gil_wait),
        None if process.cpu is None else Quantity(f"{process.cpu * 100:.0f}%"),
        format_size(report.rss),
        _duration(report.uptime),
    )


def _jobs(found: Sequence[Process], now: int) -> Iterator[tuple[Process, Job]]:
    for process in found:
        if process.is_alive(now):
            yield from ((process, job) for job in process.report.jobs)


def _job_table(jobs: Sequence[tuple[Process, Job]]) -> Table:
    rows = []
    for process, job in jobs:
        overdue = job.limit is not None and job.age > job.limit
        age = _duration(job.age)
        rows.append(
            (
                job.handler,
                f"{job.topic}[{job.partition}]",
                Styled(str(age), "red") if overdue else age,
                _duration(job.limit),
                _name(process),
            )
        )
    return Table(("JOB", "PARTITION", "AGE", "LIMIT", "PROCESS"), rows)


def _lanes(found: Sequence[Process], now: int) -> Iterator[tuple[Process, Lane, str, str]]:
    for process in found:
        for lane in process.report.lanes:
            kind, reason = stall_reason(process, lane, now)
            yield process, lane, kind, reason


def _lane_table(lanes: Sequence[tuple[Process, Lane, str, str]], trends: Trends, look: Look) -> Table:
    rows = [
        (
            lane.group,
            f"{lane.topic}[{lane.partition}]",
            lane.handler,
            lane.lag,
            sparkline(trends.lane(lane.group, lane.topic, lane.partition), _SPARK, look.blocks),
            Styled(reason, _STYLES.get(kind, "")),
        )
        for _, lane, kind, reason in lanes
    ]
    return Table(("GROUP", "PARTITION", "HANDLER", "LAG", "1 MIN", "WHAT HAPPENS"), rows)


def _cut(table: Table, rows: int, what: str, many: str | None = None) -> Iterator[Part]:
    yield Table(table.headings, table.rows[:rows])
    left = len(table.rows) - rows
    if left > 0:
        yield Styled(f"and {left:,} more {plural(left, what, many)}", "dim")


def _name(process: Process) -> str:
    facts = process.facts
    node = f" node {facts.node}" if facts.node is not None else ""
    return f"{facts.app}{node} {facts.host}:{facts.pid}"


def _duration(millis: int | None) -> Quantity | None:
    return format_duration(None if millis is None else millis / 1000)
