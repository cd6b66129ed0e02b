"""Detects threads that a hook has started by itself and that outlive their consumer.

Instances are created anew with each assignment. A thread that `initialize` starts and no hook ends is one more thread
after every rebalance. While an App runs, `threading.Thread.start` checks from which hook it is called; a job that
starts no thread pays nothing for that.
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

from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    from grete._processing.instances.context import InstanceContext

F = TypeVar("F", bound=Callable[..., Any])

logger = logging.getLogger("grete")

# Seconds for a thread to end by itself after its consumer has been closed.
GRACE = 2.0
# Frames of these files show how a thread was started, not where.
_MACHINERY = tuple(
    os.path.join(os.path.dirname(threading.__file__), part)  # noqa: PTH118, PTH120
    for part in ("threading.py", os.path.join("concurrent", ""), os.path.join("asyncio", ""))  # noqa: PTH118
)


@dataclass(frozen=True, slots=True)
class UnmanagedThread:
    """A thread that was started in a hook, and where."""

    thread: "weakref.ref[threading.Thread]"
    name: str
    location: str
    hook: str


# Functions that run user code for an instance, each with a function that finds the instance and hook in its local
# variables. A thread's start is traced back to the instance by their frames, so jobs need no bookkeeping.
_FindHook = Callable[[Mapping[str, Any]], "tuple[InstanceContext, str]"]
_hook_runners: dict[CodeType, _FindHook] = {}


def runs_hooks(find_hook: _FindHook) -> Callable[[F], F]:
    """Marks a function that runs user code for an instance. `find_hook` gets the function's local variables, and
    returns the instance's context and the name of the hook.
    """

    def register(function: F) -> F:
        _hook_runners[function.__code__] = find_hook
        return function

    return register


def _find_hook(frame: FrameType | None) -> "tuple[InstanceContext, str] | None":
    while frame is not None:
        if (find_hook := _hook_runners.get(frame.f_code)) is not None:
            return find_hook(frame.f_locals)
        frame = frame.f_back
    return None


def _start_location(frame: FrameType | None) -> str:
    while frame is not None and frame.f_code.co_filename.startswith(_MACHINERY):
        frame = frame.f_back
    return "?" if frame is None else f"{frame.f_code.co_filename}:{frame.f_lineno}"


class _ThreadStartPatch:
    """Patch of `threading.Thread.start` while any App runs."""

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
                        _record_thread(thread)
                    original(thread)

                self._patched = start
                threading.Thread.start = start  # type: ignore[assignment, method-assign]

    def leave(self) -> None:
        with self._lock:
            self._users -= 1
            # A later patch of another library refers to this one. Then this patch stays below it, and does nothing.
            if self._users == 0 and self._original is not None and threading.Thread.start is self._patched:
                threading.Thread.start = self._original  # type: ignore[assignment, method-assign]
                self._original = self._patched = None


_thread_start_patch = _ThreadStartPatch()


def _record_thread(thread: threading.Thread) -> None:
    if thread.name.startswith("grete-"):
        return
    frame = sys._getframe(1)  # noqa: SLF001
    found = _find_hook(frame)
    if found is not None:
        host, hook = found
        host.unmanaged_threads.append(
            UnmanagedThread(weakref.ref(thread), thread.name, _start_location(frame.f_back), hook)
        )


class ThreadLeakDetector:
    """Reports threads that outlive the instance whose hook has started them. For one run of an App."""

    def __init__(self, enabled: bool, monitor: Monitor | None = None) -> None:
        self._monitor = monitor
        self._enabled = enabled
        self._lock = threading.Lock()
        self._closed = threading.Event()
        self._suspects: list[tuple[float, InstanceContext, UnmanagedThread]] = []
        self._watcher: threading.Thread | None = None
        self._counts: dict[str, int] = {}

    def start(self) -> None:
        """Begins to watch for new threads."""
        if self._enabled:
            _thread_start_patch.enter()

    def on_instance_closed(self, host: "InstanceContext") -> None:
        """Gives the threads of a closed instance `GRACE` seconds to end."""
        alive = [raw for raw in host.unmanaged_threads if (thread := raw.thread()) is not None and thread.is_alive()]
        host.unmanaged_threads.clear()
        if not alive:
            return
        with self._lock:
            until = time.monotonic() + GRACE
            self._suspects += [(until, host, raw) for raw in alive]
            if self._watcher is None and not self._closed.is_set():
                self._watcher = threading.Thread(target=self._watch, name="grete-leaks", daemon=True)
                self._watcher.start()

    def close(self, deadline: float) -> None:
        """Ends the watch, and reports the remaining threads by the deadline (of `time.monotonic()`)."""
        if not self._enabled:
            return
        self._enabled = False
        _thread_start_patch.leave()
        self._closed.set()
        with self._lock:
            watcher, self._watcher = self._watcher, None
            last = max((until for until, _, _ in self._suspects), default=0.0)
        if watcher is not None:
            watcher.join()
        suspects = self._take_due()
        for _, raw in suspects:
            if (thread := raw.thread()) is not None:
                thread.join(max(0.0, min(last, deadline) - time.monotonic()))
        self._report(suspects)

    def _watch(self) -> None:
        """Reports due threads. Ends when nothing is left to watch: only programs that leak have this thread."""
        while True:
            with self._lock:
                if not self._suspects:
                    self._watcher = None
                    return
                until = self._suspects[0][0]
            if self._closed.wait(max(0.0, until - time.monotonic())):
                return
            self._report(self._take_due(time.monotonic()))

    def _take_due(self, until: float | None = None) -> "Sequence[tuple[InstanceContext, UnmanagedThread]]":
        with self._lock:
            due = [suspect for suspect in self._suspects if until is None or suspect[0] <= until]
            del self._suspects[: len(due)]  # sorted by time
        return [(host, raw) for _, host, raw in due]

    def _report(self, suspects: "Sequence[tuple[InstanceContext, UnmanagedThread]]") -> None:
        for host, raw in suspects:
            thread = raw.thread()
            if thread is None or not thread.is_alive():
                continue
            count = self._counts[raw.location] = self._counts.get(raw.location, 0) + 1
            if count & (count - 1):
                continue  # logged for 1, 2, 4, 8, ...: each rebalance leaks again
            log_and_emit(
                self._monitor,
                logger,
                logging.WARNING,
                "thread.leaked",
                'thread "%s", started at %s by %s of %s, outlives its consumer%s. Instances are created anew with each '
                "assignment: start it with self.background(...), or end it in revoked and shutdown, or share one "
                "among all instances, started outside of the consumer",
                raw.name,
                raw.location,
                raw.hook,
                host.name,
                f" ({count} by now)" if count > 1 else "",
                fields={"leaked": raw.name, "place": raw.location, "hook": raw.hook, "count": count},
            )
