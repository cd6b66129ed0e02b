"""Pages of errors."""

from starlette.exceptions import HTTPException

from grete._web.server.context import Context, Data
from grete._web.state.errors import ErrorGroup, ErrorRecord

_SHOWN = 200


def errors(context: Context) -> Data:
    """Returns the groups of errors, the newest first."""
    app = context.query.get("app", "")
    with context.store.lock:
        groups = context.store.errors.groups(app)
        apps = sorted({group.example.app for group in context.store.errors.groups()})
        rows = [_group(group) for group in groups[:_SHOWN]]
        total = context.store.errors.total
    return {"groups": rows, "apps": apps, "app": app, "total": total, "more": max(0, len(groups) - _SHOWN)}


def error(context: Context) -> Data:
    """Returns one group with its newest errors."""
    with context.store.lock:
        found = context.store.errors.get(context.path["id"])
        if found is None:
            raise HTTPException(
                404, "there is no such error: it is older than two days, or was pushed out by newer ones"
            )
        return {
            "group": _group(found),
            "traceback": found.example.traceback,
            "recent": [_record(one) for one in reversed(found.recent)],
            "process_ids": sorted(found.processes)[:20],
        }


def _group(group: ErrorGroup) -> Data:
    example = group.example
    return {
        "id": group.id,
        "count": group.count,
        "first": group.first,
        "last": group.last,
        "processes": len(group.processes),
        **_record(example),
    }


def _record(one: ErrorRecord) -> Data:
    return {
        "at": one.at,
        "event": one.event,
        "app": one.app,
        "host": one.host,
        "process": one.process,
        "handler": one.handler,
        "group_name": one.group,
        "topic": one.topic,
        "partition": one.partition,
        "offset": one.offset,
        "attempt": one.attempt,
        "decision": one.decision,
        "dead_letter": one.dead_letter,
        "class": one.error_class,
        "message": one.message,
        "summary": one.summary,
        "left_out": one.left_out,
    }
