"""Finds threads that a hook has started by itself and that outlive their consumer.

Instances are made anew with each assignment: a thread that `initialize` starts and nobody ends is one thread more
after every rebalance. While an App runs, `threading.Thread.start` looks which hook it is called from; a job that starts
no thread pays nothing for that.
"""

import logging
import os
import sys
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, TypeVar

from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell

if TYPE_CHECKING:
    from grete.processing.host import Host

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("grete")

# What a thread has to end by itself, in seconds, once its consumer has told it to and is gone.
GRACE = 2.0
# Frames of these say how a thread was started, not where.
_MACHINERY = tuple(
    os.path.join(os.path.dirname(threading.__file__), part)  # noqa: PTH118, PTH120
    for part in ("threading.py", os.path.join("concurrent", ""), os.path.join("asyncio", ""))  # noqa: PTH118
)


@dataclass(frozen=True, slots=True)
class RawThread:
    """A thread that was started in a hook, and where."""

    thread: "weakref.ref[threading.Thread]"
    name: str
    place: str
    hook: str


# Functions that run user code for an instance, and how their local variables tell whose hook it is. Their frames are
# how a thread's start is traced back to the instance, so that nothing has to be noted before each job.
_Find = Callable[[Mapping[str, Any]], "tuple[Host, str]"]
_runners: dict[CodeType, _Find] = {}


def runs_hooks(find: _Find) -> Callable[[F], F]:
    """Marks a function that runs user code for an instance. `find` gets its local variables; it returns the instance's
    host and the name of the hook.
    """

    def mark(function: F) -> F:
        _runners[function.__code__] = find
        return function

    return mark


def _host_of(frame: FrameType | None) -> "tuple[Host, str] | None":
    while frame is not None:
        if (find := _runners.get(frame.f_code)) is not None:
            return find(frame.f_locals)
        frame = frame.f_back
    return None


def _place_of(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _Patch:
    """`threading.Thread.start` for as long as somebody wants it to be watched."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users = 0
        self._original: Callable[[threading.Thread], None] | None = None
        self._patched: Callable[[threading.Thread], None] | None = None

    def enter(self) -> None:
        with self._lock:
            self._users += 1
            if self._users == 1 and self._patched is None:
                self._original = original = threading.Thread.start

                def start(thread: threading.Thread) -> None:
                    if self._users:
                        _note(thread)
                    original(thread)

                self._patched = start
                threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            # Who has patched it after us holds ours: then it stays below theirs, and does nothing.
            if self._users == 0 and self._original is not None and threading.Thread.start is self._patched:
                threading.Thread.start = self._original  # type: ignore[assignment, method-assign]
                self._original = self._patched = None


_patch = _Patch()


def _note(thread: threading.Thread) -> None:
    if thread.name.startswith("grete-"):
        return
    frame = sys._getframe(1)  # noqa: SLF001
    found = _host_of(frame)
    if found is not None:
        host, hook = found
        host.raw_threads.append(RawThread(weakref.ref(thread), thread.name, _place_of(frame.f_back), hook))


class Leaks:
    """Reports threads that outlive the instance whose hook has started them. For one run of an App."""

    def __init__(self, enabled: bool, monitor: Monitor | None = None) -> None:
        self._monitor = monitor
        self._enabled = enabled
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._suspects: list[tuple[float, Host, RawThread]] = []
        self._watcher: threading.Thread | None = None
        self._counts: dict[str, int] = {}

    def start(self) -> None:
        """Threads are watched from here on."""
        if self._enabled:
            _patch.enter()

    def gone(self, host: "Host") -> None:
        """The instance is gone; those of its threads that live have a moment to end."""
        alive = [raw for raw in host.raw_threads if (thread := raw.thread()) is not None and thread.is_alive()]
        host.raw_threads.clear()
        if not alive:
            return
        with self._lock:
            until = time.monotonic() + GRACE
            self._suspects += [(until, host, raw) for raw in alive]
            if self._watcher is None and not self._closed.is_set():
                self._watcher = threading.Thread(target=self._watch, name="grete-leaks", daemon=True)
                self._watcher.start()

    def close(self, deadline: float) -> None:
        """Reports what is still to be reported, by the deadline (of `time.monotonic()`); watches no more."""
        if not self._enabled:
            return
        self._enabled = False
        _patch.leave()
        self._closed.set()
        with self._lock:
            watcher, self._watcher = self._watcher, None
            last = max((until for until, _, _ in self._suspects), default=0.0)
        if watcher is not None:
            watcher.join()
        suspects = self._take()
        for _, raw in suspects:
            if (thread := raw.thread()) is not None:
                thread.join(max(0.0, min(last, deadline) - time.monotonic()))
        self._judge(suspects)

    def _watch(self) -> None:
        """Ends when there is nothing to watch: the thread is there for programs that leak only."""
        while True:
            with self._lock:
                if not self._suspects:
                    self._watcher = None
                    return
                until = self._suspects[0][0]
            if self._closed.wait(max(0.0, until - time.monotonic())):
                return
            self._judge(self._take(time.monotonic()))

    def _take(self, until: float | None = None) -> "Sequence[tuple[Host, RawThread]]":
        with self._lock:
            due = [suspect for suspect in self._suspects if until is None or suspect[0] <= until]
            del self._suspects[: len(due)]  # they are in the order of their times
        return [(host, raw) for _, host, raw in due]

    def _judge(self, suspects: "Sequence[tuple[Host, RawThread]]") -> None:
        for host, raw in suspects:
            thread = raw.thread()
            if thread is None or not thread.is_alive():
                continue
            count = self._counts[raw.place] = self._counts.get(raw.place, 0) + 1
            if count & (count - 1):
                continue  # 1, 2, 4, 8, ...: each rebalance leaks again, and the log need not
            tell(
                self._monitor,
                logger,
                logging.WARNING,
                "thread.leaked",
                'thread "%s", started at %s by %s of %s, outlives its consumer%s. Instances are made anew with each '
                "assignment: start it with self.background(...), or end it in revoked and shutdown, or share one "
                "among all instances, started outside of the consumer",
                raw.name,
                raw.place,
                raw.hook,
                host.name,
                f" ({count} by now)" if count > 1 else "",
                fields={"leaked": raw.name, "place": raw.place, "hook": raw.hook, "count": count},
            )
