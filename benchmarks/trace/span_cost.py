"""Part "child": the cost of a span for the code that writes it."""

from __future__ import annotations

from typing import Any

from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError, run_client

from .catalogue import WRITERS
from .measurement import Bench, Measurement, Written
from .sink import sink

TIMEOUT = 60.0


def measure(bench: Bench, found: Measurement) -> None:
    """Round by round."""
    lines: dict[str, list[dict[str, Any]]] = {}
    with sink("well", bench.sink_core) as url:
        for number in range(bench.rounds):
            say(f"child: round {number + 1} of {bench.rounds}")
            for client in WRITERS:
                try:
                    words = [*client.command, url, str(2 * bench.seconds)]
                    lines.setdefault(client.name, []).extend(run_client(words, bench.client_core, TIMEOUT))
                except ClientFailedError as error:
                    found.failed(f"child, {client.title}", error)
    for client in WRITERS:
        if rows := lines.get(client.name):
            written, sent = (
                tuple(1e6 * row[name] / row["count"] for row in rows) for name in ("seconds", "sent_seconds")
            )
            found.written.append(Written(client.name, client.title, rows[0]["version"], written, sent))
