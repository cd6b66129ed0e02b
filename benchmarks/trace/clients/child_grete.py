"""Grete: the tracer as it is, with its thread that sends."""

from __future__ import annotations

from contextlib import AbstractContextManager

import grete
from grete.instrumentation.datadog import Tracer

from .children import TAGS, Client, main
from .shape import CHILD, ROOT, SERVICE


def new(url: str) -> Client:
    """One tracer."""
    tracer = Tracer(SERVICE, env="bench", agent=url)

    def parent() -> AbstractContextManager[object]:
        return tracer.start(ROOT, parent=None)

    def children(count: int) -> None:
        (first, one), (second, other) = TAGS
        for _ in range(count):
            with tracer.start(CHILD) as span:
                span.set_tag(first, one)
                span.set_tag(second, other)

    return Client(f"grete {grete.__version__}", parent, children, lambda: tracer.flush(30.0))


if __name__ == "__main__":
    main(new)
