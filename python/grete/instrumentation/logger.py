"""What handlers do, line by line, in the log."""

import logging

from grete._core import Occurred
from grete.instrumentation.lines import lines
from grete.instrumentation.telling import fields_for_log


class LoggerListener:
    """Logs each job: `app.monitor.subscribe(LoggerListener())`, and the logger "grete.jobs" shows at DEBUG

        Orders.consume: 500 records of orders[3], offsets 1200..1699, in 12.3 ms

    and what `initialize`, `revoked`, `shutdown`, `tick` and `eof` took. The event's fields are in the record's `extra`:
    `event`, `job`, `handler`, `topic`, `partition`, `first_offset`, `last_offset`, `records`, `attempt`, `time`
    (seconds), `error` (as text; None) and so on.

    It adds what Grete does not log by itself. Failures (with their tracebacks), retries, dead letters, stalls,
    rebalances and all else that has a level in docs/events.md are on the logger "grete" without it.
    """

    def __init__(self, logger: logging.Logger | str = "grete.jobs", *, level: int = logging.DEBUG) -> None:
        self._logger = logging.getLogger(logger) if isinstance(logger, str) else logger
        self._level = level

    def on_consumer_consumed(self, occurred: Occurred) -> None:
        """A handler has returned or raised."""
        if self._logger.isEnabledFor(self._level):
            records = f"{occurred['records']} record{'' if occurred['records'] == 1 else 's'}"
            offsets = f"offsets {occurred['first_offset']}..{occurred['last_offset']}"
            attempt = f", attempt {occurred['attempt']}" if occurred["attempt"] > 1 else ""
            self._log(occurred, f"{records} of {_place(occurred)}, {offsets}{attempt}")

    def on_consumer_initialized(self, occurred: Occurred) -> None:
        """So has a hook, here and below."""
        self._hook(occurred, "initialize")

    def on_consumer_revoked(self, occurred: Occurred) -> None:
        """See above."""
        self._hook(occurred, "revoked")

    def on_consumer_shutdown(self, occurred: Occurred) -> None:
        """See above."""
        self._hook(occurred, "shutdown")

    def on_consumer_tick(self, occurred: Occurred) -> None:
        """See above."""
        self._hook(occurred, "tick")

    def on_consumer_eof(self, occurred: Occurred) -> None:
        """See above."""
        self._hook(occurred, "eof")

    def _hook(self, occurred: Occurred, hook: str) -> None:
        if self._logger.isEnabledFor(self._level):
            self._log(occurred, f"{hook} of {_place(occurred)}")

    def _log(self, occurred: Occurred, what: str) -> None:
        error: BaseException | None = occurred["error"]
        told = None if error is None else f"{type(error).__name__}: {error}"
        fields = {name: value for name, value in occurred.payload.items() if name != "messages"} | {"error": told}
        text = "%s: %s, in %.1f ms%s"
        end = "" if told is None else f", {told}"
        args = (occurred["handler"], what, occurred["time"] * 1000, end)
        with lines:
            self._logger.log(self._level, text, *args, extra={"event": occurred.name, **fields_for_log(fields)})


def _place(occurred: Occurred) -> str:
    return f"{occurred['topic']}[{occurred['partition']}]"
