"""App that reports all that a run can report: events with their payloads, log records with their fields, its objects.

For tests that no secret is in it. Settings come from variables GRETE_KAFKA_*.
"""

import logging
import os
import sys

import grete
from grete.instrumentation.datadog import Tracer


class Reporting(logging.Handler):
    """Writes each record with all its fields."""

    def emit(self, record: logging.LogRecord) -> None:
        report("record", record.getMessage(), vars(record))


def report(*words: object) -> None:
    """Writes a line to standard output."""
    sys.stdout.write(f"{' '.join(map(repr, words))}\n")


logging.basicConfig(level="DEBUG", handlers=[Reporting()])
agent = os.environ.get("REPORTING_AGENT")
app = grete.App("reporting")
if agent:
    app.monitor.subscribe(Tracer(service="reporting", agent=agent))


@app.consumer("orders", retry=grete.Retry(attempts=2, backoff="10ms"), dead_letter="orders.dlq")
def take(value: bytes) -> None:
    """Reports the objects of the App, and fails for one record."""
    report("objects", app, vars(app), app.settings(), app.statistics)
    if value == b"bad":
        raise ValueError("a record that cannot be taken")


def listen(occurred: grete.instrumentation.Event) -> None:
    """Reports one event."""
    report("event", occurred.name, dict(occurred.payload))


for name in app.monitor:
    app.monitor.subscribe(name, listen)
