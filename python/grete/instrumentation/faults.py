"""Listeners that raise."""

import contextlib
import logging

from grete._core import Event, Occurred
from grete.instrumentation.lines import lines

logger = logging.getLogger("grete")


class Faults:
    """Called by an event when one of its listeners has raised. Tells the log, and who listens to `error.occurred`."""

    def __init__(self, occurred: Event | None) -> None:
        """`occurred` is the event `error.occurred`; None for that one's own listeners."""
        self._occurred = occurred

    def __call__(self, happened: Occurred, listener: object, error: Exception) -> None:
        """Never raises an Exception itself: what has happened goes on."""
        name, described = happened.name, _describe(listener)
        with contextlib.suppress(Exception), lines:  # of a handler of logs
            logger.error(
                "the listener %s of %s raised; the others were called all the same",
                described,
                name,
                exc_info=error,
                extra={"event": "error.occurred", "type": "listener", "of": name, "listener": described},
            )
        if self._occurred:
            self._occurred.emit(type="listener", of=name, listener=described, error=error)


def _describe(listener: object) -> str:
    """Whoever wrote its `__repr__` may have erred, too."""
    module, name = getattr(listener, "__module__", None), getattr(listener, "__qualname__", None)
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) else name
    try:
        return repr(listener)
    except Exception:
        return f"<{type(listener).__name__}>"
