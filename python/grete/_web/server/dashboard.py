"""Dashboard, series for charts, and the status page."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass

from starlette.exceptions import HTTPException

from grete import _native
from grete._plural import counted, plural
from grete._web import topics
from grete._web.server.context import Context, Data
from grete._web.state.fleet import stall_reason
from grete._web.state.series import FINE, MINUTE, NAMES, RANGES, column
from grete.errors import GreteError

_RECENT = 30_000
_MAX_PROBLEMS = 12
_READ_WITHIN = 15_000
_CLOCK_LIMIT = 5_000


def dashboard(context: Context) -> Data:
    """Returns present figures and present problems."""
    store, now = context.store, context.now
    with store.lock:
        rows = store.series.window(FINE, now / 1000)[1]
        # The last bucket is not complete, and reports of the one before may be on their way.
        recent = [row for row in rows[-8:-2] if row is not None]
        minutes = [row for row in store.series.window(MINUTE, now / 1000)[1][-60:] if row is not None]
        processes = list(store.fleet)
        alive = [process for process in processes if process.is_alive(now)]
        dead = [process for process in processes if process.state(now) == "dead"]
        problems = list(_problems(context))[: _MAX_PROBLEMS + 1]
        reports = [process.report for process in alive]
    place = {name: at for at, name in enumerate(NAMES)}
    seconds = len(recent) * FINE.step
    hour = {
        name: sum(row[place[name]] for row in minutes) for name in ("failures", "retries", "dead_letters", "records")
    }
    workers = sum(report.workers or 0 for report in reports)
    busy = sum(report.busy or 0 for report in reports)
    return {
        "range": _range(context),
        "ranges": list(RANGES),
        "rate": sum(row[place["records"]] for row in recent) / seconds if seconds else None,
        "lag": sum(report.lag or 0 for report in reports) if reports else None,
        "oldest": max((lane.oldest or 0 for report in reports for lane in report.lanes), default=None),
        "failures": hour["failures"],
        "retries": hour["retries"],
        "dead_letters": hour["dead_letters"],
        "records": hour["records"],
        "rss": sum(report.rss or 0 for report in reports),
        "workers": workers,
        "busy": busy,
        "alive": len(alive),
        "dead": len(dead),
        "processes": len(processes),
        "problems": problems[:_MAX_PROBLEMS],
        "more_problems": len(problems) > _MAX_PROBLEMS,
        "collector_problem": context.parts.collector.problem,
    }


def _problems(context: Context) -> Iterator[Data]:
    """Yields what is wrong, the worst first."""
    now = context.now
    for process in context.store.fleet:
        for text in process.problems(now):
            yield {"app": process.facts.app, "process": process.facts.id, "text": text, "kind": "bad"}
    for process, lane in context.store.fleet.lanes():
        if lane.attempt <= 1:
            continue
        kind, text = stall_reason(process, lane, now)
        if kind == "wait":
            place = f"{lane.topic}[{lane.partition}]"
            yield {"app": process.facts.app, "process": process.facts.id, "text": f"{place}: {text}", "kind": "wait"}


def _range(context: Context) -> str:
    name = context.query.get("range", "1h")
    if name not in RANGES:
        raise HTTPException(400, f"range is one of {', '.join(RANGES)}")
    return name


def series(context: Context) -> Data:
    """Returns all series of a range: seconds since 1970, and values; None: nothing is known of that time."""
    name = _range(context)
    tier = RANGES[name]
    with context.store.lock:
        starts, rows = context.store.series.window(tier, context.now / 1000)
    if tier is FINE:
        # The newest bucket is not complete: it would show a drop that is none.
        starts, rows = starts[:-2], rows[:-2]
    return {
        "range": name,
        "step": tier.step,
        "times": starts,
        "series": {one: column(rows, one, tier) for one in NAMES},
    }


@dataclass(frozen=True, slots=True)
class Step:
    """One step of the status page. `state`: "ok", "warn", "bad" or "skipped"."""

    name: str
    state: str
    text: str
    cure: str = ""


def status(context: Context) -> Data:
    """Checks everything that the pages need, step by step."""
    steps = list(_steps(context))
    worst = next((state for state in ("bad", "warn") if any(step.state == state for step in steps)), "ok")
    return {"steps": [asdict(step) for step in steps], "state": worst, "version": _native.__version__}


def _steps(context: Context) -> Iterator[Step]:
    try:
        cluster = context.gateway.cluster()
    except GreteError as error:
        yield Step("Brokers", "bad", str(error), "Check --bootstrap and the Kafka settings: grete doctor")
        for name in ("Topics", "Replication", "Settings of the topics"):
            yield Step(name, "skipped", "no broker answers")
        yield from _own_steps(context)
        return
    yield Step("Brokers", "ok", f"{counted(len(cluster.brokers), 'broker')} of cluster {cluster.id}")
    yield from _topic_steps(context, len(cluster.brokers))
    yield from _own_steps(context)


def _topic_steps(context: Context, brokers: int) -> Iterator[Step]:
    try:
        states = topics.topic_states(context.gateway.admin, 10.0)
    except GreteError as error:
        yield Step("Topics", "bad", str(error), "Describe and DescribeConfigs on the topics are needed")
        return
    missing = [state.name for state in states if not state.exists]
    if missing:
        yield Step("Topics", "bad", f"{', '.join(missing)}: missing", "grete web setup")
        return
    yield Step("Topics", "ok", ", ".join(state.name for state in states))
    lacking = [state.name for state in states if state.under_replicated]
    single = [state.name for state in states if state.replication < min(2, brokers)]
    if lacking:
        yield Step("Replication", "warn", f"{', '.join(lacking)}: a replica is not in sync", "See the page Cluster")
    elif single:
        text = f"{', '.join(single)}: one copy, with {counted(brokers, 'broker')}"
        yield Step("Replication", "warn", text, "Delete the topics, and run grete web setup --replication 3")
    else:
        yield Step("Replication", "ok", f"{states[0].replication} {plural(states[0].replication, 'copy', 'copies')}")
    differing = [
        f"{state.name}: {name} is {found}, planned {planned}"
        for state in states
        for name, (found, planned) in state.differences.items()
    ]
    if differing:
        yield Step("Settings of the topics", "warn", "; ".join(differing), "grete web setup")
    else:
        yield Step("Settings of the topics", "ok", "as planned")


def _own_steps(context: Context) -> Iterator[Step]:
    collector, store, now = context.parts.collector, context.store, context.now
    read_up_to = collector.read_up_to
    if collector.problem is not None:
        yield Step("Reading", "bad", collector.problem, "")
    elif read_up_to is None or now - read_up_to > _READ_WITHIN:
        yield Step("Reading", "bad", "the topics have not been read for a while", "See the log of grete web")
    else:
        yield Step("Reading", "ok", f"{store.reports} reports, {store.errors.total} errors")
    if store.refused:
        yield Step(
            "Format", "warn", f"{counted(store.refused, 'record')} could not be read", "Update grete web, or the Apps"
        )
    else:
        yield Step("Format", "ok", "all records could be read")
    with store.lock:
        alive = store.fleet.alive(now)
    if not alive:
        yield Step(
            "Processes", "warn", "no process reports", 'Set web_reports = "3s" in the Apps, or GRETE_WEB_REPORTS=3s'
        )
        return
    yield Step("Processes", "ok", f"{len(alive)} {plural(len(alive), 'process reports', 'processes report')}")
    apart = [process for process in alive if abs(process.report.at - process.seen) > _CLOCK_LIMIT]
    if apart:
        hosts = ", ".join(sorted({process.facts.host for process in apart}))
        yield Step("Clocks", "warn", f"the clocks of {hosts} and of this machine differ", "Run NTP or chrony")
    else:
        yield Step("Clocks", "ok", "within 5 s of this machine's")
    dropped = sum(process.report.dropped for process in alive)
    if dropped:
        yield Step("Dropped reports", "warn", f"{dropped} reports found no room", "See the brokers' health")
    else:
        yield Step("Dropped reports", "ok", "none")
    versions = sorted({process.facts.grete for process in alive} | {_native.__version__})
    if len(versions) > 1:
        yield Step("Versions", "warn", f"Grete {', '.join(versions)}", "Update the older ones")
    else:
        yield Step("Versions", "ok", f"Grete {versions[0]}")
    if not store.kept_until:
        yield Step("History", "ok", "is kept from the first full minute on")
    elif now / 1000 - store.kept_until > 600:
        yield Step("History", "warn", "has not been kept for ten minutes", "See the log of grete web")
    else:
        yield Step("History", "ok", f"{len(store.series)} points in memory")
