"""Trace contexts in record headers, through the process's own propagator (`OTEL_PROPAGATORS`)."""

from collections.abc import Iterable, MutableMapping
from typing import Any

from opentelemetry import propagate, trace
from opentelemetry.context import Context
from opentelemetry.propagators.textmap import Getter

from grete._native import Message

Headers = tuple[tuple[str, bytes | None], ...]


class _Getter(Getter[Headers]):
    """Reads the last one of repeated headers, because producers append theirs. Ignores a header that is not text."""

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


def extract(headers: Headers, parent: Context) -> Context:
    """Returns the context with what the headers carry; `parent` if they are invalid: anyone may have written them."""
    try:
        return propagate.extract(headers, context=parent, getter=_GETTER)
    except Exception:  # of a propagator, caused by hostile headers
        return parent


def sender_contexts(messages: Iterable[Message], max_contexts: int) -> list[trace.SpanContext]:
    """Returns the spans that sent these records: the first `max_contexts` different ones."""
    fields = _fields()
    # Most records of a batch have no such headers, or the same ones as others. Equal headers are parsed once.
    seen: set[Headers] = set()
    found: dict[tuple[int, int], trace.SpanContext] = {}
    for message in messages:
        headers = message.headers
        if not headers:
            continue
        trace_headers = tuple(header for header in headers if header[0].lower() in fields)
        if not trace_headers or trace_headers in seen:
            continue
        seen.add(trace_headers)
        place = trace.get_current_span(extract(trace_headers, Context())).get_span_context()
        if place.is_valid:
            found.setdefault((place.trace_id, place.span_id), place)
            if len(found) == max_contexts:
                break
    return list(found.values())


def inject(headers: MutableMapping[str, Any] | list[tuple[str, Any]]) -> None:
    """Adds the headers of the current context, and replaces such headers that exist already.

    So the headers of a received record may be passed on. Values are bytes, like those of records. Without a context
    nothing is changed.
    """
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    if not carrier:
        return
    ours = _fields() | {name.lower() for name in carrier}
    added = [(name, value.encode()) for name, value in carrier.items()]
    if isinstance(headers, MutableMapping):
        for name in [name for name in headers if name.lower() in ours]:
            del headers[name]
        headers.update(added)
    else:
        headers[:] = [header for header in headers if header[0].lower() not in ours]
        headers.extend(added)


def _fields() -> set[str]:
    return {field.lower() for field in propagate.get_global_textmap().fields}
