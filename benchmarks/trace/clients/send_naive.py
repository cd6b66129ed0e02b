"""By hand: plain objects, a dict of each, msgpack over all of them, http.client over a connection that is kept."""

from __future__ import annotations

import http.client
import random
import time
import urllib.parse
from dataclasses import dataclass, field
from typing import Any

import msgpack

from .rounds import Client, main
from .shape import CHILD, RESOURCE, ROOT, SERVICE, TAGS, TYPE


@dataclass(slots=True)
class Span:
    """Fields of a span that are sent."""

    name: str
    trace_id: int
    parent_id: int
    span_id: int = field(default_factory=lambda: random.getrandbits(63))
    start: int = field(default_factory=time.time_ns)
    duration: int = 0
    tags: dict[str, str] = field(default_factory=dict)

    def finish(self) -> None:
        """With its tags."""
        for key, value in TAGS.items():
            self.tags[key] = value
        self.duration = time.time_ns() - self.start

    def as_dict(self) -> dict[str, Any]:
        """The span in Datadog's v0.4 format."""
        return {
            "service": SERVICE,
            "name": self.name,
            "resource": RESOURCE,
            "type": TYPE,
            "trace_id": self.trace_id,
            "span_id": self.span_id,
            "parent_id": self.parent_id,
            "start": self.start,
            "duration": self.duration,
            "error": 0,
            "meta": self.tags,
            "metrics": {},
        }


def new(url: str) -> Client:
    """One connection."""
    place = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port)

    def make(count: int) -> list[Span]:
        root = Span(ROOT, random.getrandbits(63), 0)
        children = [Span(CHILD, root.trace_id, root.span_id) for _ in range(count - 1)]
        spans = [root, *children]
        for span in reversed(spans):
            span.finish()
        return spans

    def send(spans: list[Span]) -> None:
        body = msgpack.packb([[span.as_dict() for span in spans]])
        headers = {"Content-Type": "application/msgpack", "X-Datadog-Trace-Count": "1"}
        connection.request("PUT", "/v0.4/traces", body, headers)
        answer = connection.getresponse()
        answer.read()
        if answer.status != 200:
            raise SystemExit(f"answered {answer.status}")

    version = ".".join(map(str, msgpack.version))
    return Client(f"msgpack {version}", make, send)


if __name__ == "__main__":
    main(new)
