"""Logs an event and delivers it to subscribers. All events go through `log_and_emit`."""

import logging
from collections.abc import Iterable, Mapping

from grete._native import LogEvent
from grete.instrumentation._logging.error_report import summarize, trimmed_exc_info
from grete.instrumentation._logging.log_lock import log_lock
from grete.instrumentation.monitor import Monitor

# Attribute names of log records.
_RESERVED = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime"}
_NO_FIELDS: Mapping[str, object] = {}


def log_and_emit(
    monitor: Monitor | None,
    logger: logging.Logger,
    level: int,
    name: str,
    text: str,
    *args: object,
    fields: Mapping[str, object] = _NO_FIELDS,
    error: BaseException | None = None,
    traceback: bool = True,
    timestamp: float | None = None,
) -> None:
    """Logs `text % args`, with the event's name and fields in `extra`, then emits the event, with `error` if any.

    `error` is in `extra` as text of one line. `traceback`: whether the log has the traceback of `error`, which is
    without Grete's own frames. `monitor` None: the event is only logged. `timestamp`: time of the log record, in
    seconds since 1970; None: now.
    """
    if logger.isEnabledFor(level):
        exc_info = trimmed_exc_info(error) if traceback and error is not None else None
        extra = {"event": name, **log_extra(fields)}
        if error is not None:
            extra["error"] = summarize(error)
        # `stacklevel=2`: the record names the caller of this function.
        with log_lock:
            if timestamp is None:
                logger.log(level, text, *args, exc_info=exc_info, extra=extra, stacklevel=2)
            else:
                _log_at(timestamp, logger, level, text, args, extra)
    if monitor is None:
        return
    event = monitor.event(name)
    if event:
        event.emit(**(fields if error is None else {**fields, "error": error}))


def _log_at(
    timestamp: float,
    logger: logging.Logger,
    level: int,
    text: str,
    args: tuple[object, ...],
    extra: Mapping[str, object],
) -> None:
    """Logs like `logger.log` for the caller of `log_and_emit`, with a given time in seconds since 1970."""
    path, line, function, _ = logger.findCaller(stacklevel=3)
    record = logger.makeRecord(logger.name, level, path, line, text, args, None, function, extra)
    record.relativeCreated -= (record.created - timestamp) * 1000
    record.created = timestamp
    record.msecs = float(int(timestamp * 1000) % 1000)
    logger.handle(record)


def log_extra(fields: Mapping[str, object]) -> dict[str, object]:
    """Returns the fields for `extra`. A name that log records use themselves gets an underscore at its end."""
    return {f"{field}_" if field in _RESERVED else field: value for field, value in fields.items()}


def log_native_events(logger: logging.Logger, events: Iterable[LogEvent], monitor: Monitor | None = None) -> None:
    """Logs and emits each log event at its time, with its name as event and its fields in `extra`."""
    for event in events:
        log_native_event(logger, event, monitor=monitor)


def log_native_event(
    logger: logging.Logger, event: LogEvent, details: str = "", monitor: Monitor | None = None
) -> None:
    """Logs and emits one log event, with `details` in the lines below its message."""
    # Most log events are DEBUG: without a reader, not even the record is made.
    if not logger.isEnabledFor(event.level) and (monitor is None or not monitor.event(event.name)):
        return
    text = f"{event.message}\n{details}" if details else event.message
    log_and_emit(monitor, logger, event.level, event.name, "%s", text, fields=event.fields, timestamp=event.time)
