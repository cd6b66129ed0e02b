"""Closes what is still open before the interpreter finalises."""

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

from grete import _place


class Closable(Protocol):
    """Something with threads below it."""

    def close_at_exit(self) -> None:
        """Ends them, quickly."""

    @property
    def described(self) -> str:
        """What it is, for people."""


logger = logging.getLogger("grete")

# The exit status of a process that is ended by force.
FORCED = 2

_abandoned: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
# With the place where each was made.
_open: "weakref.WeakKeyDictionary[Closable, str]" = weakref.WeakKeyDictionary()
_registered_in: int | None = None


def close_before_exit(thing: Closable) -> None:
    """`thing.close_at_exit()` runs when the interpreter ends, unless the thing is gone or `forget` came first.

    It must be before non-daemon threads are joined, and that only a private function of threading offers (the
    executors of concurrent.futures use it, too): `atexit` functions run after that join, which would wait for ever for
    worker threads that nobody has told to stop.
    """
    global _registered_in
    place = _place.caller()
    _open[thing] = place
    if _registered_in != os.getpid():
        if _registered_in is not None:
            _abandoned.clear()
            _open.clear()  # a forked child: what was open belongs to the parent
            _open[thing] = place
        else:
            register: Callable[[Callable[[], None]], None] = threading._register_atexit  # type: ignore[attr-defined]  # noqa: SLF001
            register(_close_all)
        _registered_in = os.getpid()


def forget(thing: Closable) -> None:
    """It is closed."""
    _open.pop(thing, None)


def still_open() -> list[tuple[str, str]]:
    """What is open in this process, like "grete.client.Producer", and where it was made: file:line."""
    if _registered_in != os.getpid():
        return []
    return sorted((thing.described, place) for thing, place in list(_open.items()))


def abandon(threads: Iterable[threading.Thread]) -> None:
    """These were given up: the interpreter's end does not wait for them, for they may never end."""
    _abandoned.update(threads)


def _close_all() -> None:
    if _registered_in != os.getpid():
        return  # a forked child that opened nothing itself
    for thing in list(_open):
        with contextlib.suppress(Exception):
            thing.close_at_exit()
    late = sorted(thread.name for thread in _abandoned if thread.is_alive())
    if late:
        # Python would join them for ever. What else would be done at the end is not done, either: atexit comes later.
        text = "forced exit: %s had been given up by a stop and still runs"
        logger.error(text, ", ".join(late), extra={"event": "app.forced"})
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
        os._exit(FORCED)
