"""Contexts in and out of record headers, by the process's own propagator (`OTEL_PROPAGATORS`)."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from grete._core import Message

Headers = tuple[tuple[str, bytes | None], ...]


class _Getter(Getter[Headers]):
    """Of a header that comes twice, the last one: producers add theirs at the end. What is no text is not there."""

    def get(self, carrier: Headers, key: str) -> list[str] | None:
        key = key.lower()
        for name, value in reversed(carrier):
            if name.lower() == key and value is not None:
                try:
                    return [value.decode()]
                except UnicodeDecodeError:
                    return None
        return None

    def keys(self, carrier: Headers) -> list[str]:
        return [name for name, _ in carrier]


_GETTER = _Getter()


def extract(headers: Headers, around: Context) -> Context:
    """The context with what the headers tell of. As it is, if they are not to be understood: anybody may have written
    them.
    """
    try:
        return propagate.extract(headers, context=around, getter=_GETTER)
    except Exception:  # a propagator's, that hostile headers have got to
        return around


def senders(messages: Iterable[Message], most: int) -> list[trace.SpanContext]:
    """The spans that sent these records: the first `most` of them that differ."""
    fields = _fields()
    # Most records of a batch have no such headers, or the same as others of it: those are not parsed again.
    seen: set[Headers] = set()
    found: dict[tuple[int, int], trace.SpanContext] = {}
    for message in messages:
        headers = message.headers
        if not headers:
            continue
        told = tuple(header for header in headers if header[0].lower() in fields)
        if not told or told in seen:
            continue
        seen.add(told)
        place = trace.get_current_span(extract(told, Context())).get_span_context()
        if place.is_valid:
            found.setdefault((place.trace_id, place.span_id), place)
            if len(found) == most:
                break
    return list(found.values())


def inject(headers: MutableMapping[str, Any] | list[tuple[str, Any]]) -> None:
    """Adds headers that tell of the current context, in place of such that are there already, so that those of a record
    that came may be passed on.

    Values are bytes, as records want them. Where there is nothing to tell, nothing is changed.
    """
    told: dict[str, str] = {}
    propagate.inject(told)
    if not told:
        return
    ours = _fields() | {name.lower() for name in told}
    added = [(name, value.encode()) for name, value in told.items()]
    if isinstance(headers, MutableMapping):
        for name in [name for name in headers if name.lower() in ours]:
            del headers[name]
        headers.update(added)
    else:
        headers[:] = [header for header in headers if header[0].lower() not in ours]
        headers.extend(added)


def _fields() -> set[str]:
    return {field.lower() for field in propagate.get_global_textmap().fields}
