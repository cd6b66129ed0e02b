"""What the network threads have to say, as log records."""

import logging
from collections.abc import Iterable

from grete._core import Notice

# Names that a log record uses itself.
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def log_notices(logger: logging.Logger, notices: Iterable[Notice]) -> None:
    """Logs each notice: its message, with its name as `event` and its fields in `extra`."""
    for notice in notices:
        log_notice(logger, notice)


def log_notice(logger: logging.Logger, notice: Notice, more: str = "") -> None:
    """Logs one notice, with `more` in the lines below its message."""
    if not logger.isEnabledFor(notice.level):
        return
    fields = {f"{name}_" if name in _TAKEN else name: value for name, value in notice.fields.items()}
    text = f"{notice.message}\n{more}" if more else notice.message
    logger.log(notice.level, "%s", text, extra={"event": notice.name, **fields})
