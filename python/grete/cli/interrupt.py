"""Ctrl-C for a command that has something to finish."""

import io
import select
import signal
import time
from collections.abc import Callable
from types import FrameType
from typing import BinaryIO, Self


class Interrupted(Exception):  # noqa: N818
    """Ctrl-C was pressed: there is no more input."""


class Interrupt:
    """The first Ctrl-C ends a wait for input, by `Interrupted`, or a sleep; all else that is under way goes on.

    The second is a KeyboardInterrupt wherever it comes. `asked` says whether there was a first one.
    """

    def __init__(self) -> None:
        self.asked = False
        self._waiting = False

    def __enter__(self) -> Self:
        self._before = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        signal.signal(signal.SIGINT, self._before)

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or self._waiting:
            self._waiting = False
            raise KeyboardInterrupt

    def reading(self, stream: BinaryIO) -> Callable[[int], bytes]:
        """`stream`'s read1, which returns what is there; after a Ctrl-C it raises Interrupted."""

        def read(size: int) -> bytes:
            self._wait(stream)
            return stream.read1(size)  # type: ignore[attr-defined, no-any-return]

        return read

    def sleep(self, seconds: float) -> None:
        """Sleeps; a Ctrl-C ends that."""
        try:
            self._waiting = True
            # As below: one that came before this line has only left its mark.
            if not self.asked:
                time.sleep(seconds)
        except KeyboardInterrupt:
            pass  # it has left its mark
        finally:
            self._waiting = False

    def _wait(self, stream: BinaryIO) -> None:
        """Until there is something to read. Only this is interrupted, so that nothing that was read is lost."""
        try:
            self._waiting = True
            # A signal that came before this line found nobody waiting, and only left its mark.
            if self.asked:
                raise Interrupted
            select.select([stream], [], [])
        except KeyboardInterrupt:
            raise Interrupted from None
        except io.UnsupportedOperation:
            pass  # no descriptor: it is in memory
        finally:
            self._waiting = False
