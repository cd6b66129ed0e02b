"""What the network threads have to say."""

import logging
from collections.abc import Iterable

from grete._core import Notice
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell


def log_notices(logger: logging.Logger, notices: Iterable[Notice], monitor: Monitor | None = None) -> None:
    """Tells each notice: its message, with its name as event and its fields beside it."""
    for notice in notices:
        log_notice(logger, notice, monitor=monitor)


def log_notice(logger: logging.Logger, notice: Notice, more: str = "", monitor: Monitor | None = None) -> None:
    """Tells one notice, with `more` in the lines below its message."""
    # Most are for those who look closely: what nobody wants is not even made.
    if not logger.isEnabledFor(notice.level) and (monitor is None or not monitor.event(notice.name)):
        return
    text = f"{notice.message}\n{more}" if more else notice.message
    tell(monitor, logger, notice.level, notice.name, "%s", text, fields=notice.fields)
