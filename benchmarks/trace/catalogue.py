"""Clients that write and send spans, and kinds of agents."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.environments import python_of

# Spans that are encoded and sent at once.
SIZES = (1, 10, 100, 1_000)


@dataclass(frozen=True)
class Client:
    """One row: a module of `benchmarks.trace.clients`, and the Python that runs it."""

    name: str
    title: str
    module: str
    ours: bool = False
    environment: Mapping[str, str] = field(default_factory=dict)

    @property
    def command(self) -> list[str]:
        """To be followed by its arguments."""
        python = Path(sys.executable) if self.ours else python_of("trace", "tracers")
        return [str(python), "-m", f"benchmarks.trace.clients.{self.module}"]


SENDERS = (
    Client("grete", "Grete", "send_grete", ours=True),
    Client("ddtrace", "ddtrace (v0.5, its default)", "send_ddtrace"),
    Client("ddtrace-v0.4", "ddtrace (v0.4)", "send_ddtrace", environment={"DD_TRACE_API_VERSION": "v0.4"}),
    Client("naive", "msgpack and http.client", "send_naive"),
)
WRITERS = (
    Client("grete", "Grete", "child_grete", ours=True),
    Client("ddtrace", "ddtrace", "child_ddtrace"),
    Client("otel", "OpenTelemetry SDK", "child_otel"),
)
JOBS = Client("jobs", "jobs", "jobs", ours=True)

# Title and the sink's mode; None: there is no tracer and no sink.
AGENTS: Mapping[str, tuple[str, str | None]] = {
    "none": ("no tracer", None),
    "well": ("answers at once", "well"),
    "away": ("is away", "away"),
    "slow": ("answers after 10 s", "slow"),
    "429": ("answers 429", "429"),
    "500": ("answers 500", "500"),
    "garbage": ("answers no HTTP", "garbage"),
}
