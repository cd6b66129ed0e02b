"""App that tells all that can be told of a run: events with their payloads, log records with their fields, its objects.

For tests that no secret is told. Settings come from variables GRETE_KAFKA_*.
"""

import logging
import os
import sys

import grete
from grete.instrumentation.datadog import Tracer


class Telling(logging.Handler):
    """Writes each record with all its fields."""

    def emit(self, record: logging.LogRecord) -> None:
        tell("record", record.getMessage(), vars(record))


def tell(*words: object) -> None:
    """Writes a line to standard output."""
    sys.stdout.write(f"{' '.join(map(repr, words))}\n")


logging.basicConfig(level="DEBUG", handlers=[Telling()])
agent = os.environ.get("TELLING_AGENT")
app = grete.App("telling")
if agent:
    app.monitor.subscribe(Tracer(service="telling", agent=agent))


@app.consumer("orders", retry=grete.Retry(attempts=2, backoff="10ms"), dead_letter="orders.dlq")
def take(value: bytes) -> None:
    """Tells the objects of the App, and fails for one record."""
    tell("objects", app, vars(app), app.settings(), app.statistics)
    if value == b"bad":
        raise ValueError("a record that cannot be taken")


def listen(occurred: grete.instrumentation.Event) -> None:
    """Tells one event."""
    tell("event", occurred.name, dict(occurred.payload))


for name in app.monitor:
    app.monitor.subscribe(name, listen)
