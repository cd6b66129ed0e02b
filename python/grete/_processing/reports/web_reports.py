"""Reports of one run of an App: the native thread that writes them, and what only the interpreter can add."""

import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grete import _native
from grete._config.layers import Config
from grete._process.stacks import without_first_own_frames
from grete._processing.commands.receiver import CommandReceiver, Control
from grete._processing.reports import process_facts
from grete._processing.reports.error_listener import ErrorListener
from grete._routing.routes import Route
from grete.client import Producer
from grete.errors import GreteError
from grete.instrumentation.clock import monotonic
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete._processing.engine.running_jobs import RunningJob

logger = logging.getLogger("grete")

REPORTS = "grete.reports"
"""Compacted topic of reports: the last one of each process, and its settings."""
ERRORS = "grete.errors"
"""Topic of errors, by time."""

# Longest wait in seconds for the last report, when the App has stopped.
_CLOSE_TIMEOUT = 1.0
# A job that has run for less than this many seconds needs no stack.
_STACK_AFTER = 2.0
_STACKS = 3
# The reports of a process must not disturb what it is for: little memory, no retries for minutes, one copy written.
_PRODUCER = {
    "acks": "1",
    "enable.idempotence": "false",
    "linger.ms": "20",
    "batch.size": "65536",
    "buffer.memory": "524288",
    "compression.type": "lz4",
    "request.timeout.ms": "10000",
    "delivery.timeout.ms": "15000",
    "max.block.ms": "15000",
}
# Those of the App's own settings that name what its producer writes, and not how to connect.
_NOT_INHERITED = frozenset(
    {"transactional.id", "transaction.timeout.ms", "compression.level", "acks", "max.request.size"}
)


class WebReports:
    """Reports of this process to `grete.reports` and `grete.errors`, from `start` to `close`.

    A native thread writes the reports, without the GIL. The thread of the App adds the stacks of jobs that take long:
    its main loop waits no longer than `remaining`, then calls `tick`.
    """

    def __init__(
        self,
        app: str,
        node: int | None,
        config: Config,
        groups: Mapping[str, Sequence[Route]],
        monitor: Monitor | None,
    ) -> None:
        self._interval: float = config["web_reports"]
        self._config = config
        self._groups = groups
        self._monitor = monitor
        self._facts = process_facts.facts(app, node)
        self._health: _native.Health | None = None
        self._running: Callable[[], Sequence[RunningJob]] = tuple
        self._producer: Producer | None = None
        self._listener: ErrorListener | None = None
        self._settings: _native.Delivery | None = None
        self._commands: CommandReceiver | None = None
        self._has_failed = False
        self._next_at = 0.0

    def start(
        self, health: _native.Health, running: "Callable[[], Sequence[RunningJob]]", control: Control | None = None
    ) -> None:
        """Begins to report, and to read commands if they are switched on. `running` describes the running jobs with
        their stacks; `control`: what commands act on.
        """
        kept = {name: value for name, value in self._config.kafka_pairs() if name not in _NOT_INHERITED}
        producer = self._producer = Producer(kept | _PRODUCER)
        self._health, self._running = health, running
        self._next_at = monotonic() + self._interval
        key = self._facts["id"].encode()
        health.report_to(producer, REPORTS, key, json.dumps(self._facts), self._interval)
        self._write_settings()
        if self._monitor is not None:
            self._listener = ErrorListener(self._facts, producer, ERRORS, running)
            self._listener.subscribe(self._monitor)
        secret: str = self._config["web_commands_secret"] or ""
        if control is not None and (secret or self._config["web_commands"]):
            pairs = self._config.kafka_pairs()
            self._commands = CommandReceiver(self._facts, pairs, secret, control, self._monitor)
            self._commands.start()

    def remaining(self) -> float | None:
        """Returns the seconds until `tick` has something to do."""
        return None if self._producer is None else max(self._next_at - monotonic(), 0.0)

    def tick(self) -> None:
        """Sets the stacks of the next reports, if it is time, and logs that brokers take none."""
        now = monotonic()
        if self._producer is None or self._health is None or now < self._next_at:
            return
        self._next_at = max(self._next_at + self._interval, now)
        jobs = [job for job in self._running() if job.stack and job.seconds >= _STACK_AFTER]
        jobs.sort(key=lambda job: -job.seconds)
        at = time.time()
        self._health.set_stacks([(job.text, without_first_own_frames(job.stack), at) for job in jobs[:_STACKS]])
        self._check()

    def close(self) -> None:
        """Waits for the last report to be written. The native thread must have ended."""
        commands, self._commands = self._commands, None
        if commands is not None:
            commands.close()
        if self._listener is not None and self._monitor is not None:
            self._listener.unsubscribe(self._monitor)
        producer, self._producer = self._producer, None
        self._health, self._running = None, tuple
        if producer is not None:
            producer.close(_CLOSE_TIMEOUT)

    def _write_settings(self) -> None:
        assert self._producer is not None
        value = process_facts.settings(self._facts, self._config, self._groups)
        self._settings = None
        try:
            self._settings = self._producer.produce(
                REPORTS, json.dumps(value).encode(), key=f"{self._facts['id']}#settings".encode()
            )
        except GreteError as error:
            self._log(error)

    def _check(self) -> None:
        """Logs once that reports are not written; writes the settings again until they are."""
        delivery = self._settings
        if delivery is None or (delivery.done and delivery.error is not None):
            if delivery is not None and delivery.error is not None:
                self._log(delivery.error)
            self._write_settings()

    def _log(self, error: BaseException) -> None:
        if self._has_failed:
            return
        self._has_failed = True
        log_and_emit(
            self._monitor,
            logger,
            logging.WARNING,
            "app.not_reported",
            "reports for grete web are not written: %s; the App goes on without them. Create their topics: "
            "grete web setup",
            error,
            error=error,
            traceback=False,
        )


def is_enabled(config: Config) -> bool:
    """Returns whether the process reports."""
    interval: float = config["web_reports"]
    return interval != float("inf")


def new_web_reports(*arguments: Any) -> WebReports | None:
    """Returns the reports of a run; None: they are switched off. `arguments`: those of `WebReports`."""
    return WebReports(*arguments) if is_enabled(arguments[2]) else None
