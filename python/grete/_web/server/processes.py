"""Pages of processes."""

from starlette.exceptions import HTTPException

from grete._web.server import commands
from grete._web.server.context import Context, Data
from grete._web.state.fleet import Process, stall_reason

_ORDER = {"dead": 0, "starting": 1, "stopping": 2, "quiet": 3, "running": 4, "stopped": 5}


def processes(context: Context) -> Data:
    """Returns all processes by App."""
    now = context.now
    with context.store.lock:
        rows = [row(process, now) for process in context.store.fleet]
    rows.sort(key=lambda one: (one["app"], _ORDER.get(one["state"], 9), one["node"] or 0, one["host"], one["pid"]))
    by_app: dict[str, list[Data]] = {}
    for one in rows:
        by_app.setdefault(one["app"], []).append(one)
    apps = [
        {
            "app": app,
            "processes": members,
            "alive": sum(one["is_alive"] for one in members),
            "rate": sum(one["rate"] for one in members),
            "lag": sum(one["lag"] or 0 for one in members if one["is_alive"]),
            "rss": sum(one["rss"] or 0 for one in members if one["is_alive"]),
        }
        for app, members in by_app.items()
    ]
    return {"apps": apps, "collector_problem": context.parts.collector.problem}


def row(process: Process, now: int) -> Data:
    """Returns one process for a table."""
    report, facts = process.report, process.facts
    is_alive = process.is_alive(now)
    return {
        "id": facts.id,
        "app": facts.app,
        "node": facts.node,
        "host": facts.host,
        "pid": facts.pid,
        "state": process.state(now),
        "is_alive": is_alive,
        "seen": process.seen,
        "started": facts.started,
        "uptime": report.uptime,
        "lanes": len(report.lanes) + report.lanes_left_out if is_alive else 0,
        "lag": report.lag,
        "rate": process.rate if is_alive else 0.0,
        "jobs": len(report.jobs),
        "oldest_job": report.jobs[0].age if report.jobs and is_alive else None,
        "gil_wait": report.gil_wait,
        "rss": report.rss,
        "cpu": process.cpu if is_alive else None,
        "busy": report.busy,
        "workers": report.workers,
        "failures": report.totals.failures,
        "dead_letters": report.totals.dead_letters,
        "grete": facts.grete,
        "python": facts.python,
        "problems": process.problems(now),
    }


def process(context: Context) -> Data:
    """Returns one process."""
    now, name = context.now, context.query.get("id", "")
    with context.store.lock:
        found = context.store.fleet.get(name)
        if found is None:
            raise HTTPException(404, "there is no such process: it has ended long ago, or has never reported")
        errors = [group for group in context.store.errors.groups(found.facts.app) if found.facts.id in group.processes]
        error_rows = [{"id": group.id, "text": group.example.summary, "last": group.last} for group in errors[:10]]
    report, settings = found.report, found.settings
    is_alive = found.is_alive(now)
    lanes: list[Data] = []
    for lane in sorted(report.lanes, key=lambda one: (one.group, one.topic, one.partition, one.handler)):
        kind, reason = stall_reason(found, lane, now)
        lanes.append(
            {
                "group": lane.group,
                "topic": lane.topic,
                "partition": lane.partition,
                "handler": lane.handler,
                "state": lane.state,
                "position": lane.position,
                "end": lane.end,
                "lag": lane.lag,
                "oldest": lane.oldest,
                "in_flight": lane.in_flight,
                "attempt": lane.attempt,
                "paused_for": lane.paused_for,
                "committable": lane.committable,
                "kind": kind,
                "reason": reason,
            }
        )
    jobs = [
        {
            "handler": job.handler,
            "topic": job.topic,
            "partition": job.partition,
            "age": job.age,
            "limit": job.limit,
            "is_overdue": job.limit is not None and job.age > job.limit,
        }
        for job in report.jobs
    ]
    return {
        "process": row(found, now),
        "commands": commands.commands_of(context, found),
        "audit": commands.entries(context, process_id=found.facts.id)[:20],
        "fds": report.fds,
        "loop_wait": report.loop_wait,
        "totals": {name: getattr(report.totals, name) for name in type(report.totals).__dataclass_fields__},
        "traffic": report.traffic,
        "groups": [
            {
                "group": group.group,
                "state": group.state,
                "since": int(group.since * 1000),
                "ready": group.ready,
                "generation": group.generation,
                "partitions": group.partitions,
                "connections": group.connections,
            }
            for group in report.groups
        ],
        "handlers": [
            {
                "name": handler.name,
                "jobs": handler.jobs,
                "records": handler.records,
                "failures": handler.failures,
                "retries": handler.retries,
                "dead_letters": handler.dead_letters,
                "running": handler.running,
                "oldest": handler.oldest,
                "mean": handler.duration / handler.jobs if handler.jobs else None,
                "p99": handler.p99,
            }
            for handler in report.handlers
        ],
        "jobs": jobs if is_alive else [],
        "stacks": [{"text": one.text, "stack": one.stack, "at": one.at} for one in report.stacks] if is_alive else [],
        "lanes": lanes,
        "lanes_left_out": report.lanes_left_out,
        "retries": [lane for lane in lanes if lane["attempt"] > 1] if is_alive else [],
        "errors": error_rows,
        "settings": list(settings.settings) if settings is not None else [],
        "kafka": list(settings.kafka) if settings is not None else [],
        "routes": [
            {
                "handler": one.handler,
                "topics": list(one.topics),
                "group": one.group,
                "location": one.location,
                "concurrency": one.concurrency,
                "attempts": one.attempts,
                "dead_letter": one.dead_letter,
                "publish": one.publish,
            }
            for one in (settings.routes if settings is not None else ())
        ],
    }
