"""Fork hooks that remove the parent's signal handlers and descriptors from a forked child.

A child has a copy of everything, and none of the threads. If one of our handlers stayed in the child, SIGTERM would do
nothing there. CPython's C-level handler, which runs before ours, writes the signal's number to the wake-up descriptor.
That descriptor leads to the parent's socket: a signal to the child would stop the parent's App.

A hook after the fork removes these handlers. A signal may arrive in the child before that, at any point:

1. The forking thread runs the hooks "before". Our hook blocks all signals in this thread, and in no other. A signal to
the parent meanwhile is handled in another thread, or waits for step 5.
2. fork(2). The child has one thread, whose mask is a copy of this one. Signals that wait for the parent are not
inherited, so signals that wait in the child were sent to the child. `Process.terminate()` right after the fork sends
such a signal.
3. In the child, C code closes Grete's descriptors (`grete_sys::fork`), the wake-up socket among them. No C-level
   handler
runs that could write to a descriptor that is closed, or was reused by then.
4. In the child, Python's hooks run. Our hook restores handlers and the wake-up descriptor, and gives the thread the
   mask
that the parent's thread had. Signals that have waited find the actions that were installed before Grete: SIGTERM ends
the child.
5. In the parent, also if the fork has failed, our hook restores the thread's mask.

Forks without Python's hooks remain (`subprocess` with `user=`, a C library). C code closes the descriptors there, too,
and an executed program has default actions instead of handlers. Only before the exec can such a child write to the
socket: a Ctrl-C of the terminal, which the parent gets as well, may then count twice. `subprocess` without `preexec_fn`
and `user=` uses vfork(2), and blocks all signals itself.
"""

import contextlib
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from types import FrameType
from typing import Any, Protocol

Handler = Callable[[int, FrameType | None], object]


class ProcessLocal(Protocol):
    """Resource of one process, which a forked child must not use."""

    def leave_to_parent(self) -> None:
        """Releases the child's copy, in a forked child. All signals are blocked meanwhile if a handler is installed."""


# In the order of `register`. A node of a swarm also inherits its supervisor's resources.
_process_local: list[ProcessLocal] = []


class _Masks(threading.local):
    """Masks of the forking thread: one per fork under way, because a hook may fork, too. None: nothing was blocked."""

    def __init__(self) -> None:
        self.before: list[set[int] | None] = []


_masks = _Masks()
# Signals that we block in this process until they have a handler. A child must not inherit that.
_unblocked_in_child: frozenset[int] = frozenset()
_kept = False


def register(thing: ProcessLocal) -> None:
    """Makes forked children release `thing` from now on."""
    if thing not in _process_local:
        _process_local.append(thing)


def unregister(thing: ProcessLocal) -> None:
    """Ends a registration."""
    if thing in _process_local:
        _process_local.remove(thing)


def unblock_in_child(signals: frozenset[int]) -> None:
    """Unblocks these signals in forked children, whatever the mask of the forking thread is."""
    global _unblocked_in_child
    _unblocked_in_child = signals


@contextlib.contextmanager
def inherit_all() -> Iterator[None]:
    """Keeps everything in a child that is forked inside this block: a node, whose own code releases what it must."""
    global _kept
    _kept = True
    try:
        yield
    finally:
        _kept = False


def ignore(_signum: int, _frame: FrameType | None) -> None:
    """Signal handler for signals that only the wake-up descriptor needs, or that are ignored."""


class Handlers:
    """Signal handlers of ours, from `install` to `remove`. Both are called in the main thread."""

    def __init__(self) -> None:
        self._installed: dict[int, tuple[Handler, Any]] = {}
        self._wakeup_before: int | None = None

    def install(self, signals: Iterable[int], handler: Handler, wakeup: int | None = None) -> None:
        """Installs `handler` for each of the signals.

        `wakeup`: the descriptor that each signal's number is written to; None: unchanged.
        """
        register(self)
        # The descriptor before the handlers, so that each handled signal has its byte.
        if wakeup is not None:
            self._wakeup_before = signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
        for signum in signals:
            before = signal.getsignal(signum)
            # None: C code has installed the handler, and Python cannot restore it.
            self._installed[signum] = handler, signal.SIG_DFL if before is None else before
            signal.signal(signum, handler)

    def remove(self) -> None:
        """Restores the previous handlers. Does nothing in a forked child, where they are restored already."""
        if self not in _process_local:
            return
        for signum, (_, before) in self._installed.items():
            signal.signal(signum, before)
        if self._wakeup_before is not None:
            signal.set_wakeup_fd(self._wakeup_before)
        self._installed, self._wakeup_before = {}, None
        unregister(self)

    def leave_to_parent(self) -> None:
        """Restores the previous handlers, unless a handler was replaced since, and removes any wake-up descriptor."""
        if self._wakeup_before is not None:
            signal.set_wakeup_fd(-1)
        for signum, (handler, before) in self._installed.items():
            if signal.getsignal(signum) == handler:
                signal.signal(signum, before)


class ChildClosedFd:
    """Descriptor without an object that closes it in a forked child."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._file = _file_id(fd)

    def leave_to_parent(self) -> None:
        """Closes the descriptor, unless its number was reused."""
        if _file_id(self._fd) == self._file:
            os.close(self._fd)


def _file_id(fd: int) -> tuple[int, int]:
    stat = os.fstat(fd)
    return stat.st_dev, stat.st_ino


def _before_fork() -> None:
    # An embedded App handles no signals, so the masks of its process are not changed.
    handled = any(isinstance(thing, Handlers) for thing in _process_local)
    before = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals()) if handled else None
    _masks.before.append(before)


def _in_parent() -> None:
    _unblock(frozenset())


def _in_child() -> None:
    if _kept:
        _unblock(frozenset())
        return
    # In reverse order: each entry restores the state that the entry before has installed.
    for thing in reversed(_process_local):
        with contextlib.suppress(Exception):  # a failure must not keep the others from it
            thing.leave_to_parent()
    _process_local.clear()
    held = _unblocked_in_child
    unblock_in_child(frozenset())
    # The caller of the hooks swallows their exceptions, KeyboardInterrupt, too. So a waiting SIGINT ends the child.
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler and _masks.before[-1] is not None
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    _unblock(held)
    if raises:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _unblock(held: frozenset[int]) -> None:
    before = _masks.before.pop()
    if before is not None:
        signal.pthread_sigmask(signal.SIG_SETMASK, before - held)


os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
