"""Listener that writes errors to a topic: which handler, which record, which attempt, with the traceback."""

import json
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grete._native import Event
from grete._process.stacks import without_first_own_frames
from grete.client import Producer
from grete.errors import GreteError
from grete.instrumentation._logging.error_report import class_name, error_text, trimmed_exc_info
from grete.instrumentation.clock import monotonic
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete._processing.engine.running_jobs import RunningJob

EVENTS = (
    "app.failed",
    "app.hook_failed",
    "app.not_committed",
    "background.failed",
    "consumer.abandoned",
    "consumer.dead_letter",
    "consumer.error",
    "consumer.stalled",
    "consumer.timeout",
    "loop.blocked",
    "loop.error",
    "partition.failed",
    "producer.callback",
)
_FIELDS = (
    "handler",
    "group",
    "topic",
    "partition",
    "offset",
    "first_offset",
    "last_offset",
    "attempt",
    "attempts",
    "hook",
    "decision",
    "dead_letter",
    "seconds",
    "reason",
)
_WITH_STACK = frozenset({"consumer.stalled", "consumer.timeout"})
_MAX_MESSAGE = 1000
_MAX_TRACEBACK = 6000
# Bytes of errors: a burst, and then so many per second. An App whose every record fails must not write more about its
# failures than it reads.
_BURST = 64 * 1024
_RATE = 1024.0


class ErrorListener:
    """Listener of the events that are errors. Errors above the rate are counted, and named with the next one."""

    def __init__(
        self,
        facts: Mapping[str, Any],
        producer: Producer,
        topic: str,
        running: "Callable[[], Sequence[RunningJob]]",
    ) -> None:
        self._process = {name: facts[name] for name in ("id", "app", "node", "host", "pid")}
        self._producer = producer
        self._topic = topic
        self._running = running
        self._lock = threading.Lock()
        self._allowance = float(_BURST)
        self._updated_at = monotonic()
        self._left_out = 0

    def subscribe(self, monitor: Monitor) -> None:
        """Listens to errors."""
        for name in EVENTS:
            monitor.subscribe(name, self._on_error)

    def unsubscribe(self, monitor: Monitor) -> None:
        """Listens no more."""
        for name in EVENTS:
            monitor.unsubscribe(name, self._on_error)

    def _on_error(self, event: Event) -> None:
        if not self._may_write():
            return
        value = json.dumps(self._record(event), default=str).encode()
        try:
            self._producer.produce(self._topic, value, key=self._process["app"].encode())
        except GreteError:
            self._give_back()
            return
        with self._lock:
            self._allowance -= len(value)
            self._left_out = 0

    def _may_write(self) -> bool:
        with self._lock:
            now = monotonic()
            self._allowance = min(_BURST, self._allowance + (now - self._updated_at) * _RATE)
            self._updated_at = now
            if self._allowance > 0:
                return True
            self._left_out += 1
            return False

    def _give_back(self) -> None:
        with self._lock:
            self._left_out += 1

    def _record(self, event: Event) -> dict[str, Any]:
        record: dict[str, Any] = {"v": 1, "at": int(event.at * 1000), "event": event.name, "process": self._process}
        record |= {name: event[name] for name in _FIELDS if name in event and event[name] is not None}
        error = event.payload.get("error")
        if isinstance(error, BaseException):
            record["class"] = class_name(error)
            record["message"] = error_text(error)[:_MAX_MESSAGE]
            info = trimmed_exc_info(error)
            if info is not None:
                text = "".join(traceback.format_exception(*info))
                record["traceback"] = text[-_MAX_TRACEBACK:].encode("utf-8", "backslashreplace").decode()
        elif error is not None:
            record["message"] = str(error)[:_MAX_MESSAGE]
        if event.name in _WITH_STACK:
            place = event["topic"], event["partition"]
            found = next((job.stack for job in self._running() if (job.topic, job.partition) == place), "")
            record["traceback"] = without_first_own_frames(found)[-_MAX_TRACEBACK:]
        if self._left_out:
            record["left_out"] = self._left_out
        return record
