"""Log output of a program that has not set up logging: INFO and above of the logger "grete", to standard error."""

import logging

from grete._process.node import Formatter

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
SWARM_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(grete_node)s %(name)s: %(message)s"


class DefaultHandler(logging.StreamHandler):  # type: ignore[type-arg]
    """Handler on the logger "grete". It is silent from the moment on at which the program has a handler of its own."""

    def emit(self, record: logging.LogRecord) -> None:
        """Writes the record unless the program has set up logging meanwhile."""
        if not _is_configured():
            super().emit(record)


def add_default_handler(level: str) -> None:
    """Shows the lines of the logger "grete" from `level` on, unless "grete" or the root logger has a handler.

    A level that the program has set on one of the two stays as it is.

    Without this, Python's handler of last resort would show warnings only, and a program that waits for records would
    look as if it hung. A second call changes nothing.
    """
    logger = logging.getLogger("grete")
    if any(isinstance(handler, DefaultHandler) for handler in logger.handlers) or _is_configured():
        return
    handler = DefaultHandler()
    handler.setFormatter(Formatter(LOG_FORMAT))
    logger.addHandler(handler)
    if logger.level == logging.NOTSET and logging.getLogger().level == logging.WARNING:
        logger.setLevel(level)


def _is_configured() -> bool:
    """Returns whether the logger "grete" or the root logger has a handler that is not Grete's."""
    logger = logging.getLogger("grete")
    others = [handler for handler in logger.handlers if not isinstance(handler, DefaultHandler)]
    return bool(others or logging.getLogger().handlers or not logger.propagate)
