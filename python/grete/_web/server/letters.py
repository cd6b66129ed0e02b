"""Pages of dead letters, and their replay."""

from starlette.exceptions import HTTPException

from grete._dlq.dead_letter import DeadLetter, parse_dead_letter
from grete._dlq.filter import DeadLetterFilter
from grete._web.kafka import explorer, letters
from grete._web.security.masking import MASKED
from grete._web.server.context import Context, Data
from grete._web.server.records import record as record_data
from grete.errors import GreteError

_PATTERNS = ("dlq", "dead-letter", "dead_letter", "deadletter")
_MAX_TOPICS = 100
_WAIT = 2.0


def letter_topics(context: Context) -> Data:
    """Returns the dead letter topics that routes name, and those that are called so."""
    declared: dict[str, set[str]] = {}
    with context.store.lock:
        for process in context.store.fleet:
            for route in process.settings.routes if process.settings is not None else ():
                if route.dead_letter:
                    declared.setdefault(route.dead_letter, set()).add(f"{process.facts.app}: {route.handler}")
    present = {topic.name for topic in context.gateway.topics()}
    named = {name for name in present if any(pattern in name.lower() for pattern in _PATTERNS)}
    rows = []
    for name in sorted({*declared, *named})[:_MAX_TOPICS]:
        row: Data = {
            "topic": name,
            "writers": sorted(declared.get(name, ())),
            "exists": name in present,
            "records": None,
        }
        if row["exists"]:
            try:
                row["records"] = sum(end - first for first, end in context.gateway.ranges(name).values())
            except GreteError as error:
                row["problem"] = str(error)
        rows.append(row)
    rows.sort(key=lambda row: (-(row["records"] or 0), row["topic"]))
    return {"topics": rows, "runs": _runs(context, None)}


def letters_of(context: Context) -> Data:
    """Returns the newest dead letters of a topic."""
    topic = context.path["topic"]
    found = letters.newest(context.gateway, topic)
    return {
        "topic": topic,
        "letters": [
            _row(letter, context) | {"replayed": (letter.message.partition, letter.message.offset) in found.replayed}
            for letter in found.letters
        ],
        "total": found.total,
        "classes": [{"class": name, "count": count} for name, count in found.classes.most_common()],
        "sources": sorted({letter.source_topic for letter in found.letters}),
        "runs": _runs(context, topic),
        "may_replay": context.user.may("operator"),
        "page": explorer.PAGE,
    }


def letter(context: Context) -> Data:
    """Returns one dead letter."""
    data = record_data(context)
    message = explorer.one(context.gateway, data["topic"], data["partition"], data["offset"])
    found = parse_dead_letter(message) if message is not None else None
    if found is None:
        raise HTTPException(404, "the record is no dead letter: none of its headers says where it came from")
    return data | {
        "letter": _row(found, context),
        "message": _error_message(found, context),
        "replayed": letters.is_replayed(context.gateway, found),
        "may_replay": context.user.may("operator"),
        "runs": _runs(context, data["topic"]),
    }


def plan(context: Context) -> Data:
    """Counts what a replay would send. It sends nothing."""
    context.require("operator")
    topic, selection, rate = _wanted(context)
    planned = context.parts.replays.plan(topic, selection)
    return {
        "topic": topic,
        "fields": {
            name: value
            for name in ("partition", "offset", "error", "source", "rate")
            if (value := context.form.get(name))
        },
        "selected": selection.to_query() or "all dead letters",
        "count": planned.count,
        "before": planned.before,
        "rate": rate,
        "rows": [
            {"source": source, "class": name, "count": count} for (source, name), count in planned.counts.most_common()
        ],
    }


def replay(context: Context) -> str:
    """Begins a replay. Returns the page that shows it."""
    context.require("operator")
    topic, selection, rate = _wanted(context)
    run = context.parts.replays.start(topic, selection, rate, context.user.name)
    context.parts.replays.wait(run, _WAIT)
    return f"/letters/{topic}"


def stop_replay(context: Context) -> str:
    """Stops a replay. Returns the page that shows it."""
    context.require("operator")
    number = context.form_number("number")
    for run in context.parts.replays.runs:
        if run.number == number:
            run.stop()
    return f"/letters/{context.path['topic']}"


def _wanted(context: Context) -> tuple[str, DeadLetterFilter, int | None]:
    partition, offset = context.form_number("partition", most=2**31 - 1), context.form_number("offset")
    if offset is not None and partition is None:
        raise HTTPException(400, "an offset belongs to a partition: give one")
    error, source = context.form.get("error", "").strip() or None, context.form.get("source", "").strip() or None
    if error is not None and len(error) > 200:
        raise HTTPException(400, "the class of an error has at most 200 characters")
    try:
        selection = DeadLetterFilter(partition, offset, error, source)
    except ValueError as wrong:
        raise HTTPException(400, str(wrong)) from None
    return context.path["topic"], selection, context.form_number("rate", least=1, most=1_000_000)


def _row(letter: DeadLetter, context: Context) -> Data:
    message = letter.message
    row: Data = {
        "topic": message.topic,
        "partition": message.partition,
        "offset": message.offset,
        "timestamp": message.timestamp,
        "source_topic": letter.source_topic,
        "source_partition": letter.source_partition,
        "source_offset": letter.source_offset,
        "origin": letter.origin,
        "group": letter.group,
        "attempts": letter.attempts,
        "class": letter.error_class,
        "first_failed": _millis(letter.first_failed),
        "last_failed": _millis(letter.last_failed),
        "replay_count": letter.replay_count,
    }
    if context.user.sees_payload:  # an error's text may have the record in it
        row["message"] = _error_message(letter, context)[:300]
    return row


def _error_message(letter: DeadLetter, context: Context) -> str:
    if not context.user.sees_payload:
        return ""
    return MASKED if context.parts.masks.hides_errors(letter.message) else letter.error_message


def _millis(at: object) -> int | None:
    return int(at.timestamp() * 1000) if at is not None else None  # type: ignore[attr-defined]


def _runs(context: Context, topic: str | None) -> list[Data]:
    return [
        {
            "number": run.number,
            "topic": run.topic,
            "selected": run.selected,
            "user": run.user,
            "begun": int(run.begun * 1000),
            "planned": run.planned,
            "replayed": run.replayed.total(),
            "done": run.done,
            "error": run.error,
        }
        for run in reversed(context.parts.replays.runs)
        if topic in (None, run.topic)
    ]
