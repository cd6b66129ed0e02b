"""Closes what is still open before the interpreter finalises."""

import contextlib
import os
import threading
import weakref
from collections.abc import Callable
from typing import Protocol


class Closable(Protocol):
    """Something with threads below it."""

    def close_at_exit(self) -> None:
        """Ends them, quickly."""


_open: "weakref.WeakSet[Closable]" = weakref.WeakSet()
_registered_in: int | None = None


def close_before_exit(thing: Closable) -> None:
    """`thing.close_at_exit()` runs when the interpreter ends, unless the thing is gone or `forget` came first.

    It must be before non-daemon threads are joined, and that only a private function of threading offers (the
    executors of concurrent.futures use it, too): `atexit` functions run after that join, which would wait for ever for
    worker threads that nobody has told to stop.
    """
    global _registered_in
    _open.add(thing)
    if _registered_in != os.getpid():
        if _registered_in is not None:
            _open.clear()  # a forked child: what was open belongs to the parent
            _open.add(thing)
        else:
            register: Callable[[Callable[[], None]], None] = threading._register_atexit  # type: ignore[attr-defined]  # noqa: SLF001
            register(_close_all)
        _registered_in = os.getpid()


def forget(thing: Closable) -> None:
    """It is closed."""
    _open.discard(thing)


def _close_all() -> None:
    if _registered_in != os.getpid():
        return  # a forked child that opened nothing itself
    for thing in list(_open):
        with contextlib.suppress(Exception):
            thing.close_at_exit()
