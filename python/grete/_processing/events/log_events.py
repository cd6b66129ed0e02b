"""Logs and emits log events of the threads of a running App, with stacks of handlers that hang."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grete._native import LogEvent
from grete.instrumentation.emit import log_and_emit, log_native_event
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete._processing.engine.engine import Engine
    from grete._processing.missing_topics import MissingTopics

logger = logging.getLogger("grete")

# Log events about a job that still runs.
_WITH_STACK = frozenset({"consumer.stalled", "consumer.timeout", "consumer.abandoned"})


class LogEventHandler:
    """Handles log events, in the thread of the App."""

    def __init__(self, monitor: Monitor | None = None) -> None:
        self._monitor = monitor
        self.missing_topics: MissingTopics | None = None
        """Gets log events about missing topics; None before the start."""
        self.engine: Engine | None = None
        """Source of stacks; None while it does not run."""

    def __call__(self, events: Sequence[LogEvent]) -> None:
        """Logs and emits the events."""
        if self.missing_topics is not None:
            self.missing_topics.on_log_events(events)
        for event in events:
            if event.name == "loop.blocked" and self._log_blocked_loop(event):
                continue
            log_native_event(logger, event, self._stack(event) if event.name in _WITH_STACK else "", self._monitor)

    def _log_blocked_loop(self, event: LogEvent) -> bool:
        """Logs the event with what blocks the event loop. Returns False if that is unknown."""
        engine = self.engine
        blocked = engine.blocked_loop(event.fields["seconds"]) if engine is not None else None
        if blocked is None:
            return False
        text = f"{blocked.text}\n{blocked.stack}" if blocked.stack else blocked.text
        log_and_emit(self._monitor, logger, event.level, event.name, "%s", text, fields=blocked.fields)
        return True

    def _stack(self, event: LogEvent) -> str:
        engine, fields = self.engine, event.fields
        if engine is None or not logger.isEnabledFor(event.level):
            return ""
        return engine.stack_of(fields["topic"], fields["partition"], fields.get("slot", 0))
