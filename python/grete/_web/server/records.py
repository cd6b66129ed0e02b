"""Pages of topics and their records. The content of records is for operators; viewers see places, times and sizes."""

from datetime import UTC, datetime
from urllib.parse import quote

from starlette.exceptions import HTTPException
from starlette.responses import Response

from grete._dlq.dead_letter import parse_dead_letter
from grete._native import Message
from grete._web.kafka import explorer
from grete._web.kafka.decode import shown
from grete._web.server.context import Context, Data

FORMS = ("auto", "json", "text", "hex")
_MAX_KEY = 1000


def topics(context: Context) -> Data:
    """Returns all topics; `internal=1`: Kafka's own and those of `grete web`, too."""
    with_internal = context.query.get("internal") == "1"
    rows: list[Data] = [
        {
            "name": topic.name,
            "internal": topic.internal or topic.name.startswith("grete."),
            "partitions": len(topic.partitions),
            "replication": min((len(one.replicas) for one in topic.partitions), default=0),
            "under_replicated": sum(len(one.isr) < len(one.replicas) for one in topic.partitions),
            "offline": sum(one.leader is None for one in topic.partitions),
        }
        for topic in context.gateway.topics()
    ]
    hidden = sum(row["internal"] for row in rows)
    return {
        "topics": [row for row in rows if with_internal or not row["internal"]],
        "with_internal": with_internal,
        "hidden": hidden,
    }


def topic(context: Context) -> Data:
    """Returns one topic: partitions, settings, readers."""
    name = context.path["topic"]
    found, ranges = context.gateway.topic(name), context.gateway.ranges(name)
    most = max((end - first for first, end in ranges.values()), default=0)
    with context.store.lock:
        readers = sorted({(lane.group, lane.handler) for _, lane in context.store.fleet.lanes() if lane.topic == name})
    return {
        "topic": name,
        "id": found.id,
        "partitions": [
            {
                "id": one.id,
                "leader": one.leader,
                "replicas": list(one.replicas),
                "isr": list(one.isr),
                "first": ranges[one.id][0],
                "end": ranges[one.id][1],
                "records": ranges[one.id][1] - ranges[one.id][0],
                "share": round(20 * (ranges[one.id][1] - ranges[one.id][0]) / most) if most else 0,
            }
            for one in found.partitions
        ],
        "records": sum(end - first for first, end in ranges.values()),
        "config": [
            {"name": entry.name, "value": entry.value, "source": entry.source, "is_default": entry.is_default}
            for entry in sorted(context.gateway.config(name).values(), key=lambda one: (one.is_default, one.name))
        ],
        "readers": [{"group": group, "handler": handler} for group, handler in readers],
    }


def records(context: Context) -> Data:
    """Returns a page of records."""
    name = context.path["topic"]
    partition, offset = context.number("partition", most=2**31 - 1), context.number("offset")
    at = context.query.get("at", "").strip()
    when = explorer.parse_time(at) if at else None
    if at and when is None:
        raise HTTPException(400, "at is a time like 2026-03-01T12:00, in UTC")
    if offset is not None and partition is None:
        raise HTTPException(400, "an offset belongs to a partition: give one")
    _check_partition(context, name, partition)
    page = explorer.page(context.gateway, name, partition, offset, when)
    return {
        **_explorer(context, name, partition, page.ranges),
        "offset": offset,
        "at": at,
        "records": [_row(message, context) for message in page.records],
        "previous": page.previous,
        "next": page.next,
        "search": None,
    }


def search(context: Context) -> Data:
    """Looks for records by key. The key is in the body of the request, and so in no log."""
    context.require("operator")
    name = context.path["topic"]
    if context.parts.masks.covers_key(name):
        raise HTTPException(403, f"keys of {name} are masked, and a search would find out what they are")
    partition, key = context.form_number("partition", most=2**31 - 1), context.form.get("key", "")
    if not 0 < len(key) <= _MAX_KEY:
        raise HTTPException(400, f"a key has 1 to {_MAX_KEY} characters")
    _check_partition(context, name, partition)
    at = context.form.get("at", "").strip()
    when = explorer.parse_time(at) if at else None
    found = explorer.search(context.gateway, name, partition, key.encode(), when, context.parts.masks.hides_key)
    return {
        **_explorer(context, name, partition, context.gateway.ranges(name)),
        "offset": None,
        "at": at,
        "records": [_row(message, context) for message in found.records],
        "previous": None,
        "next": None,
        "search": {
            "key": key,
            "found": len(found.records),
            "searched": found.searched,
            "complete": found.complete,
            "seconds": round(found.seconds, 2),
        },
    }


def record(context: Context) -> Data:
    """Returns one record."""
    message = _message(context)
    form = context.query.get("as", "auto")
    if form not in FORMS:
        raise HTTPException(400, f"as is one of {', '.join(FORMS)}")
    letter = parse_dead_letter(message)
    data = {**_row(message, context), "form": form, "forms": list(FORMS), "is_letter": letter is not None}
    first, end = context.gateway.ranges(message.topic).get(message.partition, (0, 0))
    data |= {"first": first, "end": end, "key": None, "value": None, "headers": [], "masked": False}
    if context.user.sees_payload:
        parts = context.parts.readable(message)
        raw = form == "hex" and not parts.masked
        data["masked"] = parts.masked
        data["key"] = _shown(message.key if raw else parts.key, form)
        data["value"] = _shown(message.value if raw else parts.value, form)
        data["headers"] = [{"name": _printable(name), **_shown(value, "auto")} for name, value in parts.headers]
    return data


def download(context: Context) -> Response:
    """Returns key or value of a record, as a file that no browser runs."""
    context.require("operator")
    message = _message(context)
    part = context.query.get("part", "value")
    if part not in ("key", "value"):
        raise HTTPException(400, "part is key or value")
    parts = context.parts.readable(message)
    data = message.key if part == "key" else message.value
    if parts.masked:
        data = parts.key if part == "key" else parts.value
    if data is None:
        raise HTTPException(404, f"the {part} is null")
    masked = ".masked" if parts.masked else ""
    name = quote(f"{message.topic}-{message.partition}-{message.offset}{masked}.{part}", safe="")
    headers = {"content-disposition": f"attachment; filename*=UTF-8''{name}"}
    return Response(data, media_type="application/octet-stream", headers=headers)


def _message(context: Context) -> Message:
    partition, offset = context.number("partition", most=2**31 - 1), context.number("offset")
    if partition is None or offset is None:
        raise HTTPException(400, "a record has a partition and an offset")
    message = explorer.one(context.gateway, context.path["topic"], partition, offset)
    if message is None:
        raise HTTPException(
            404, "there is no record at this offset: deleted, compacted away, or the mark of a transaction"
        )
    return message


def _check_partition(context: Context, topic: str, partition: int | None) -> None:
    if partition is not None and partition not in context.gateway.ranges(topic):
        raise HTTPException(404, f"{topic} has no partition {partition}")


def _explorer(context: Context, topic: str, partition: int | None, ranges: dict[int, tuple[int, int]]) -> Data:
    return {
        "topic": topic,
        "partition": partition,
        "partitions": sorted(ranges),
        "first": ranges[partition][0] if partition is not None else None,
        "end": ranges[partition][1] if partition is not None else None,
        "page": explorer.PAGE,
        "sees_payload": context.user.sees_payload,
        "may_search": context.user.sees_payload and not context.parts.masks.covers_key(topic),
    }


def _row(message: Message, context: Context) -> Data:
    row: Data = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "time": _iso(message.timestamp),
        "key_size": None if message.key is None else len(message.key),
        "value_size": None if message.value is None else len(message.value),
        "header_count": len(message.headers),
        "sees_payload": context.user.sees_payload,
    }
    if context.user.sees_payload:
        parts = context.parts.readable(message)
        row |= {"key_line": shown(parts.key).line, "value_line": shown(parts.value).line}
    return row


def _shown(data: bytes | None, form: str) -> Data:
    found = shown(data, form)
    return {"form": found.form, "text": found.text, "size": found.size, "is_cut": found.is_cut}


def _printable(text: str) -> str:
    return text if text.isprintable() else text.encode("unicode_escape").decode()


def _iso(millis: int) -> str | None:
    try:
        return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds") if millis >= 0 else None
    except (ValueError, OverflowError, OSError):
        return None
