"""ddtrace: the tracer as it is, with its thread that sends; what only talks to the agent beside it is switched off."""

from __future__ import annotations

import os
import sys

os.environ |= {
    "DD_TRACE_AGENT_URL": sys.argv[1],
    "DD_ENV": "bench",
    "DD_SERVICE": "orders",
    "DD_INSTRUMENTATION_TELEMETRY_ENABLED": "false",
    "DD_REMOTE_CONFIGURATION_ENABLED": "false",
    "DD_TRACE_STARTUP_LOGS": "false",
}

from contextlib import AbstractContextManager

import ddtrace
from ddtrace.trace import tracer

from .children import TAGS, Client, main
from .shape import CHILD, ROOT


def new(_: str) -> Client:
    """The process's tracer."""

    def parent() -> AbstractContextManager[object]:
        span: AbstractContextManager[object] = tracer.trace(ROOT)
        return span

    def children(count: int) -> None:
        (first, one), (second, other) = TAGS
        for _ in range(count):
            with tracer.trace(CHILD) as span:
                span.set_tag(first, one)
                span.set_tag(second, other)

    return Client(f"ddtrace {ddtrace.__version__}", parent, children, tracer.flush)


if __name__ == "__main__":
    main(new)
