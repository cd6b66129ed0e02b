"""Tells what the threads of a running App have to say; a handler that hangs is told with its stack."""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from grete._core import Notice
from grete.instrumentation.monitor import Monitor
from grete.processing.notices import log_notice

if TYPE_CHECKING:
    from grete.processing.engine import Engine

logger = logging.getLogger("grete")

# These name a job that still runs.
_LATE = frozenset({"consumer.stalled", "consumer.timeout", "consumer.abandoned"})


class Teller:
    """Called with notices, in the thread that runs the App."""

    def __init__(self, monitor: Monitor | None = None) -> None:
        self._monitor = monitor
        self.engine: Engine | None = None
        """Knows the stacks, while it runs."""

    def __call__(self, notices: Sequence[Notice]) -> None:
        """Logs and emits them."""
        for notice in notices:
            log_notice(logger, notice, self._stack(notice) if notice.name in _LATE else "", self._monitor)

    def _stack(self, notice: Notice) -> str:
        engine, fields = self.engine, notice.fields
        if engine is None or not logger.isEnabledFor(notice.level):
            return ""
        return engine.stack_of(fields["topic"], fields["partition"], fields.get("slot", 0))
