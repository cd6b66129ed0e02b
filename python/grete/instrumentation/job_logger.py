"""Listener that logs each job."""

import logging

from grete._native import Event, one_line
from grete._plural import counted
from grete.instrumentation._logging.error_report import error_text
from grete.instrumentation._logging.log_lock import log_lock
from grete.instrumentation.emit import log_extra


class JobLogger:
    """Logs each job: `app.monitor.subscribe(JobLogger())`, and the logger "grete.jobs" shows at DEBUG

        Orders.consume: 500 records of orders[3], offsets 1200..1699, in 12.3 ms

    and the durations of `initialize`, `revoked`, `shutdown`, `tick` and `eof`. The event's fields are in the record's
    `extra`: `event`, `job`, `handler`, `topic`, `partition`, `first_offset`, `last_offset`, `records`, `attempt`,
    `time` (seconds), `error` (as text; None: no error) and so on.

    It adds what Grete does not log by itself. Failures (with their tracebacks), retries, dead letters, stalls,
    rebalances and all other events with a level in docs/events.md are logged by "grete" in any case.
    """

    def __init__(self, logger: logging.Logger | str = "grete.jobs", *, level: int = logging.DEBUG) -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def on_job_finished(self, occurred: Event) -> None:
        """Logs a handler that has returned or raised."""
        if self._logger.isEnabledFor(self._level):
            records = counted(occurred["records"], "record")
            offsets = f"offsets {occurred['first_offset']}..{occurred['last_offset']}"
            attempt = f", attempt {occurred['attempt']}" if occurred["attempt"] > 1 else ""
            self._log(occurred, f"{records} of {_partition_of(occurred)}, {offsets}{attempt}")

    def on_consumer_initialized(self, occurred: Event) -> None:
        """Logs a new instance's `initialize`."""
        self._log_hook(occurred, "initialize")

    def on_consumer_revoked(self, occurred: Event) -> None:
        """Logs the `revoked` hooks of a partition."""
        self._log_hook(occurred, "revoked")

    def on_consumer_shutdown(self, occurred: Event) -> None:
        """Logs the `shutdown` hooks of a partition."""
        self._log_hook(occurred, "shutdown")

    def on_consumer_tick(self, occurred: Event) -> None:
        """Logs the `tick` hooks of a partition."""
        self._log_hook(occurred, "tick")

    def on_consumer_eof(self, occurred: Event) -> None:
        """Logs the `eof` hooks of a partition."""
        self._log_hook(occurred, "eof")

    def _log_hook(self, occurred: Event, hook: str) -> None:
        if self._logger.isEnabledFor(self._level):
            self._log(occurred, f"{hook} of {_partition_of(occurred)}")

    def _log(self, occurred: Event, what: str) -> None:
        error: BaseException | None = occurred["error"]
        shown = None if error is None else one_line(f"{type(error).__name__}: {error_text(error)}")
        fields = {name: value for name, value in occurred.payload.items() if name != "messages"} | {"error": shown}
        text = "%s: %s, in %.1f ms%s"
        end = "" if shown is None else f", {shown}"
        args = (occurred["handler"], what, occurred["time"] * 1000, end)
        with log_lock:
            self._logger.log(self._level, text, *args, extra={"event": occurred.name, **log_extra(fields)})


def _partition_of(occurred: Event) -> str:
    return f"{occurred['topic']}[{occurred['partition']}]"
