"""Errors of listeners."""

import contextlib
import logging

from grete._native import Event, EventChannel
from grete.instrumentation._logging.log_lock import log_lock

logger = logging.getLogger("grete")


class ListenerErrors:
    """Called by an event when one of its listeners has raised. Logs the error and emits `listener.failed`."""

    def __init__(self, channel: EventChannel | None) -> None:
        """`channel`: the event `listener.failed`; None: for listeners of `listener.failed` itself, which are only
        logged.
        """
        self._channel = channel

    def __call__(self, event: Event, listener: object, error: Exception) -> None:
        """Never raises an Exception, so that the code that emitted the event goes on."""
        name, listener_name = event.name, _name_of(listener)
        with contextlib.suppress(Exception), log_lock:  # a logging handler may raise
            logger.error(
                "the listener %s of %s raised; the others were still called",
                listener_name,
                name,
                exc_info=error,
                extra={"event": "listener.failed", "type": "listener", "of": name, "listener": listener_name},
            )
        if self._channel:
            self._channel.emit(type="listener", of=name, listener=listener_name, error=error)


def _name_of(listener: object) -> str:
    """Returns a name for the listener; its `__repr__` may raise, too."""
    module, name = getattr(listener, "__module__", None), getattr(listener, "__qualname__", None)
    if isinstance(name, str):
        return f"{module}.{name}" if isinstance(module, str) else name
    try:
        return repr(listener)
    except Exception:
        return f"<{type(listener).__name__}>"
