"""Grete: finished spans wait in the tracer; `flush` has its thread encode and send them, and waits for the answer."""

from __future__ import annotations

import grete
from grete.instrumentation.datadog import Span, Tracer

from .rounds import Client, main
from .shape import CHILD, RESOURCE, ROOT, SERVICE, TAGS, TYPE


def new(url: str) -> Client:
    """A tracer that sends nothing by itself before a minute is over."""
    tracer = Tracer(SERVICE, env="bench", agent=url, interval=60.0)

    def finish(span: Span) -> None:
        for key, value in TAGS.items():
            span.set_tag(key, value)
        span.finish()

    def make(count: int) -> None:
        root = tracer.start(ROOT, resource=RESOURCE, span_type=TYPE, parent=None)
        for _ in range(count - 1):
            finish(tracer.start(CHILD, resource=RESOURCE, span_type=TYPE, parent=root))
        finish(root)

    def send(_: None) -> None:
        if not tracer.flush(30.0):
            raise SystemExit("not sent in 30 s")

    return Client(f"grete {grete.__version__}", make, send)


if __name__ == "__main__":
    main(new)
