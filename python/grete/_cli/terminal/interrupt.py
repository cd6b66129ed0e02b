"""Ctrl-C handling for a command that must finish its work."""

import io
import select
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import BinaryIO, Self

from grete._process import forks


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C was pressed: there is no more input."""


class Interrupt:
    """Ctrl-C handling. The first Ctrl-C ends a wait for input, by `Interrupted`, or a sleep; all other work goes on.

    The second Ctrl-C is a KeyboardInterrupt anywhere. `requested`: whether there was a first one.
    """

    def __init__(self) -> None:
        self.requested = False
        self._waiting = False
        self._handlers = forks.Handlers()

    def __enter__(self) -> Self:
        self._handlers.install([signal.SIGINT], self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        self._handlers.remove()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        again, self.requested = self.requested, True
        if again or self._waiting:
            self._waiting = False
            raise KeyboardInterrupt

    def reading(self, stream: BinaryIO) -> Callable[[int], bytes]:
        """Returns a read function for `stream`, which returns the present data; after a Ctrl-C it raises
        Interrupted.
        """

        def read(size: int) -> bytes:
            self._wait(stream)
            return stream.read1(size)  # type: ignore[attr-defined, no-any-return]

        return read

    def sleep(self, seconds: float) -> None:
        """Sleeps until the time is up, or until Ctrl-C."""
        try:
            self._waiting = True
            # As in `_wait`: a Ctrl-C before this line has only set `requested`.
            if not self.requested:
                time.sleep(seconds)
        except KeyboardInterrupt:
            pass  # `requested` is set
        finally:
            self._waiting = False

    def _wait(self, stream: BinaryIO) -> None:
        """Waits until there is data to read. Only this wait is interrupted, so that no read data is lost."""
        try:
            self._waiting = True
            # A signal before this line found no wait to end, and only set `requested`.
            if self.requested:
                raise Interrupted
            select.select([stream], [], [])
        except KeyboardInterrupt:
            raise Interrupted from None
        except io.UnsupportedOperation:
            pass  # no descriptor: the stream is in memory
        finally:
            self._waiting = False
