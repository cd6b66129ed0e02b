"""What the network threads have to say, as log records."""

import logging
from collections.abc import Iterable

from grete._core import Notice

# Names that a log record uses itself.
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}


def log_notices(logger: logging.Logger, notices: Iterable[Notice]) -> None:
    """Logs each notice: its message, with its name as `event` and its fields in `extra`."""
    for notice in notices:
        if not logger.isEnabledFor(notice.level):
            continue
        fields = {f"{name}_" if name in _TAKEN else name: value for name, value in notice.fields.items()}
        logger.log(notice.level, "%s", notice.message, extra={"event": notice.name, **fields})
