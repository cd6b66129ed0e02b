"""Closes clients and Apps that are still open before the interpreter finalizes."""

import contextlib
import logging
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Protocol

from grete._process import callsite


class Closable(Protocol):
    """Object that owns threads."""

    def close_at_exit(self) -> None:
        """Ends the threads, quickly."""

    @property
    def described(self) -> str:
        """Description for people."""


logger = logging.getLogger("grete")

# Exit status of a process that was forced to exit.
FORCED_EXIT_STATUS = 2

_given_up: "weakref.WeakSet[threading.Thread]" = weakref.WeakSet()
# Open objects with the location where each was made.
_open_things: "weakref.WeakKeyDictionary[Closable, str]" = weakref.WeakKeyDictionary()
_registered_in: int | None = None


def close_before_exit(closable: Closable) -> None:
    """Runs `closable.close_at_exit()` when the interpreter ends, unless the object was collected or `forget` came
    first.

    The call must run before non-daemon threads are joined. Only a private function of threading offers that (the
    executors of concurrent.futures use it, too). `atexit` functions run after that join, which would wait without end
    for worker threads that were never asked to stop.
    """
    global _registered_in
    location = callsite.caller_location()
    _open_things[closable] = location
    if _registered_in != os.getpid():
        if _registered_in is not None:
            _given_up.clear()
            _open_things.clear()  # a forked child: open objects belong to the parent
            _open_things[closable] = location
        else:
            register: Callable[[Callable[[], None]], None] = threading._register_atexit  # type: ignore[attr-defined]  # noqa: SLF001
            register(_close_all)
        _registered_in = os.getpid()


def forget(closable: Closable) -> None:
    """Removes a closed object."""
    _open_things.pop(closable, None)


def still_open() -> list[tuple[str, str]]:
    """Returns the objects open in this process, like "grete.client.Producer", and where each was made: file:line."""
    if _registered_in != os.getpid():
        return []
    return sorted((closable.described, place) for closable, place in list(_open_things.items()))


def give_up(threads: Iterable[threading.Thread]) -> None:
    """Excludes threads from the interpreter's wait at exit, because they may never end."""
    _given_up.update(threads)


def _close_all() -> None:
    if _registered_in != os.getpid():
        return  # a forked child that opened nothing itself
    for closable in list(_open_things):
        with contextlib.suppress(Exception):
            closable.close_at_exit()
    still_running = sorted(thread.name for thread in _given_up if thread.is_alive())
    if still_running:
        # Python would join these threads without end. Other exit work is skipped as well: atexit runs after the join.
        text = "forced exit: %s did not end in time at a stop and still runs"
        logger.error(text, ", ".join(still_running), extra={"event": "app.forced"})
        with contextlib.suppress(Exception):
            logging.shutdown()
            sys.stdout.flush()
        os._exit(FORCED_EXIT_STATUS)
