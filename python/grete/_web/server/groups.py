"""Pages of consumer groups: lag of each partition, with the reason why it does not shrink."""

from collections.abc import Sequence

from starlette.exceptions import HTTPException

from grete._web.server.context import Context, Data
from grete._web.state.fleet import Process, stall_reason
from grete._web.state.report import Lane
from grete.client import Lag
from grete.errors import GreteError

# With more groups than this, the list shows the lag that processes report, and asks brokers for none.
_ASKED = 40


def groups(context: Context) -> Data:
    """Returns all groups with their lag."""
    now = context.now
    listed = context.gateway.groups()
    with context.store.lock:
        lanes = list(context.store.fleet.lanes())
    reported: dict[str, list[tuple[Process, Lane]]] = {}
    for process, lane in lanes:
        reported.setdefault(lane.group, []).append((process, lane))
    rows: list[Data] = []
    for one in listed:
        own = reported.get(one.group, [])
        lag, unknown = _lag_of(context, one.group, own, ask=len(listed) <= _ASKED)
        kinds = [stall_reason(process, lane, now)[0] for process, lane in own]
        rows.append(
            {
                "group": one.group,
                "state": one.state,
                "type": one.type,
                "lag": lag,
                "unknown": unknown,
                "oldest": max((lane.oldest or 0 for process, lane in own if process.is_alive(now)), default=None),
                "processes": len({process.facts.id for process, _ in own if process.is_alive(now)}),
                "stalled": kinds.count("bad"),
                "topics": sorted({lane.topic for _, lane in own}),
            }
        )
    rows.sort(key=lambda row: (not row["stalled"], -(row["lag"] or 0), row["group"]))
    return {"groups": rows}


def _lag_of(context: Context, group: str, own: list[tuple[Process, Lane]], *, ask: bool) -> tuple[int | None, int]:
    """Returns the lag, and the number of partitions whose lag is unknown."""
    if ask:
        try:
            lags = [one.lag for one in context.gateway.lag(group).values()]
        except GreteError:
            lags = []
        if lags:
            return sum(lag for lag in lags if lag is not None), lags.count(None)
    known = [lane.lag for process, lane in own if lane.lag is not None and process.is_alive(context.now)]
    return (sum(known) if known else None), 0


def group(context: Context) -> Data:
    """Returns one group: members, and each partition with its reason."""
    name, now = context.query.get("name", ""), context.now
    if name not in (one.group for one in context.gateway.groups()):
        raise HTTPException(404, "there is no such group: brokers forget a group without members and offsets")
    found = context.gateway.group(name)
    lags = context.gateway.lag(name)
    with context.store.lock:
        lanes = {
            (lane.topic, lane.partition): (process, lane)
            # A dead process is named only where no other one has the partition.
            for process, lane in sorted(context.store.fleet.lanes(), key=lambda one: one[0].seen)
            if lane.group == name
        }
        history = {at: context.store.lags.values((name, *at)) for at in {*lags, *lanes}}
        times = context.store.lags.times()
    owners = {at: member for member in found.members for at in member.partitions}
    rows = [
        _row(at, lags.get(at), lanes.get(at), owners.get(at), found.state, now, history[at])
        for at in sorted({*lags, *lanes})
    ]
    return {
        "group": name,
        "state": found.state,
        "protocol": found.protocol,
        "assignor": found.assignor,
        "coordinator": found.coordinator,
        "members": [
            {
                "id": member.id,
                "instance": member.instance,
                "client": member.client,
                "host": member.host,
                "partitions": len(member.partitions),
            }
            for member in found.members
        ],
        "rows": rows,
        "lag": sum(row["lag"] or 0 for row in rows),
        "stalled": sum(row["kind"] == "bad" for row in rows),
        "times": times,
        "total_history": _total(list(history.values()), len(times)),
    }


def _total(rows: Sequence[list[int | None]], length: int) -> list[int | None]:
    totals: list[int | None] = [None] * length
    for row in rows:
        for place, lag in enumerate(row):
            if lag is not None:
                totals[place] = (totals[place] or 0) + lag
    return totals


def _row(
    at: tuple[str, int],
    lag: Lag | None,
    place: tuple[Process, Lane] | None,
    member: object,
    state: str,
    now: int,
    history: list[int | None],
) -> Data:
    topic, partition = at
    reported = place[1] if place is not None else None
    known = lag.lag if lag is not None else None
    if known is None and reported is not None:
        known = reported.lag
    if place is not None and reported is not None:
        kind, reason = stall_reason(place[0], reported, now)
    elif member is not None:
        kind, reason = "busy" if known else "ok", "its member does not report to grete web"
    elif state in ("Empty", "Dead", ""):
        kind, reason = "bad" if known else "ok", "the group has no members"
    else:
        kind, reason = "bad" if known else "wait", "no member has the partition"
    return {
        "topic": topic,
        "partition": partition,
        "committed": lag.committed if lag is not None else None,
        "end": lag.end if lag is not None else (reported.end if reported is not None else None),
        "lag": known,
        "oldest": reported.oldest if reported is not None else None,
        "process": place[0].facts.id if place is not None else None,
        "host": f"{place[0].facts.host}:{place[0].facts.pid}" if place is not None else getattr(member, "host", None),
        "handler": reported.handler if reported is not None else None,
        "kind": kind,
        "reason": reason,
        "history": history[-60:],
    }
