"""Step at which a server hangs, from the log of the client that connects to it.

A call of the client waits through all attempts, so its error does not say at which step of the connection they end. The
client's log does, at the end of each attempt. Log lines are written by the thread that waits in the call, and an
exception of theirs ends the call.
"""

import contextlib
import logging
import re
import threading
import time
from collections.abc import Iterator

from grete.errors import GreteError

# Reasons of `CloseReason` in the native client, and the steps; "tls" is "tcp" on a connection that does not encrypt.
_REASONS = (
    ("no connection within", "tls"),
    ("no login within", "sasl"),
    ("during the login", "sasl"),
    ("was not answered within", "metadata"),
)
# Lines of an attempt that failed, up to its reason, and the step where the reason says none. A broker that has answered
# ApiVersions is "lost".
_LINES = (
    (re.compile(r"cannot be (?:reached|used) \(attempt [0-9]+\): (.*)", re.DOTALL), "api_versions"),
    (re.compile(r"^lost the [a-z]+ connection to .*:[0-9]+: (.*)", re.DOTALL), "metadata"),
    (re.compile(r"^(cannot log in to .*)", re.DOTALL), "sasl"),
)
_TAIL = re.compile(r"; (?:the connection is tried again|until a login succeeds, .*)$")
_LOGGER = logging.getLogger("grete.client")


class HangError(GreteError):
    """A server that stops answering at one step."""

    def __init__(self, step: str, problem: str) -> None:
        super().__init__(problem)
        self.step = step


class _Listener(logging.Handler):
    def __init__(self, timeout: float) -> None:
        super().__init__(logging.DEBUG)
        self._timeout = timeout
        self._started = time.monotonic()
        self._thread = threading.get_ident()

    def emit(self, record: logging.LogRecord) -> None:
        """Raises HangError for an attempt that had its time, and for attempts that go on for longer."""
        if record.thread != self._thread:
            return
        line = record.getMessage()
        for pattern, default in _LINES:
            found = pattern.search(line)
            if found is None:
                continue
            problem = _TAIL.sub("", found[1])
            step = next((step for words, step in _REASONS if words in problem), default)
            if " within " in problem or time.monotonic() - self._started >= self._timeout:
                raise HangError(step, problem)


@contextlib.contextmanager
def log_heard() -> Iterator[None]:
    """Lets `hangs_found` hear all that clients log, and shows nothing of it."""
    before = _LOGGER.level, _LOGGER.propagate
    silent = logging.NullHandler()  # without any handler, Python would write warnings to standard error
    _LOGGER.setLevel(logging.DEBUG)
    _LOGGER.propagate = False
    _LOGGER.addHandler(silent)
    try:
        yield
    finally:
        _LOGGER.removeHandler(silent)
        _LOGGER.setLevel(before[0])
        _LOGGER.propagate = before[1]


@contextlib.contextmanager
def hangs_found(timeout: float) -> Iterator[None]:
    """Raises HangError when a client of this thread gives up an attempt to connect. `timeout`: seconds of one step."""
    listener = _Listener(timeout)
    _LOGGER.addHandler(listener)
    try:
        yield
    finally:
        _LOGGER.removeHandler(listener)
