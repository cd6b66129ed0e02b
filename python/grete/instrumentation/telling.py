"""The one road of everything that happens: into the log, and to those who listen."""

import logging
from collections.abc import Mapping

from grete.instrumentation.lines import lines
from grete.instrumentation.monitor import Monitor

# Names that a log record uses itself.
_TAKEN = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_NOTHING: Mapping[str, object] = {}


def tell(
    monitor: Monitor | None,
    logger: logging.Logger,
    level: int,
    name: str,
    text: str,
    *args: object,
    fields: Mapping[str, object] = _NOTHING,
    error: BaseException | None = None,
    traceback: bool = True,
) -> None:
    """Logs `text % args`, with the event's name and fields in `extra`, then emits the event, with `error` if any.

    `traceback`: the error is in the log with its own. No monitor: it is logged only.
    """
    if logger.isEnabledFor(level):
        exc_info = error if traceback else None
        extra = {"event": name, **fields_for_log(fields)}
        # The record is of who tells it.
        with lines:
            logger.log(level, text, *args, exc_info=exc_info, extra=extra, stacklevel=2)
    if monitor is None:
        return
    event = monitor.event(name)
    if event:
        event.emit(**(fields if error is None else {**fields, "error": error}))


def fields_for_log(fields: Mapping[str, object]) -> dict[str, object]:
    """For `extra`: names that a log record uses itself have an underscore behind them."""
    return {f"{field}_" if field in _TAKEN else field: value for field, value in fields.items()}
