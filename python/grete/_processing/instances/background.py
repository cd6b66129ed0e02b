"""Background work of an instance beside its hooks: threads and tasks that end before the instance."""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from grete import _native
from grete.errors import GreteError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger("grete")


class BackgroundThread(threading.Thread):
    """Daemon thread: a thread that cannot be stopped must not keep the process from ending."""

    def __init__(self, owner: "Background", fn: Callable[..., Any], args: Sequence[Any], name: str) -> None:
        super().__init__(name=f"grete-background-{name}", daemon=True)
        self._owner = owner
        self._call: tuple[Callable[..., Any], Sequence[Any]] | None = (fn, args)

    @property
    def owner(self) -> "Background":
        """Background work that the thread belongs to."""
        return self._owner

    def run(self) -> None:
        """Calls the function and logs what it raises."""
        call, self._call = self._call, None  # the thread object may outlive the instance
        if call is None:
            return
        try:
            call[0](*call[1])
        except BaseException as error:
            self._owner.log_failure(self.name, error)
        finally:
            self._owner.on_thread_exit(self)


class Background:
    """Background work of one instance. `start` is thread-safe; call the rest where the instance's last hook runs."""

    __slots__ = ("_lock", "_monitor", "_stopped", "_stopping", "_tasks", "_threads", "dispatcher", "name")

    def __init__(self, name: str, dispatcher: _native.Dispatcher, monitor: Monitor | None = None) -> None:
        """`name`: the instance's, for messages. `dispatcher`: identifies the App."""
        self.name = name
        self.dispatcher = dispatcher
        self._monitor = monitor
        self._lock = threading.Lock()
        self._stopped = False
        self._stopping: threading.Event | None = None
        self._threads: list[BackgroundThread] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def stopping(self) -> threading.Event:
        """Event set by `stop`. Created on first use, because most instances have no background work."""
        with self._lock:
            if self._stopping is None:
                self._stopping = threading.Event()
                if self._stopped:
                    self._stopping.set()
            return self._stopping

    def start(
        self, fn: Callable[..., Any], args: Sequence[Any], name: str | None
    ) -> "threading.Thread | asyncio.Task[Any]":
        """Runs `fn(*args)` in a thread, or a coroutine function in a task on the running loop."""
        if not callable(fn):
            raise TypeError(f"background runs a function, not {fn!r}: pass the function itself and its arguments")
        name = name or str(getattr(fn, "__name__", type(fn).__name__))
        if inspect.iscoroutinefunction(fn):
            return self._start_task(fn, args, name)
        thread = BackgroundThread(self, fn, args, name)
        with self._lock:
            self._refuse_when_stopping(name)
            # Started under the lock: `stop` must not find a thread that cannot be joined yet.
            thread.start()
            self._threads.append(thread)
        return thread

    def _start_task(self, fn: Callable[..., Any], args: Sequence[Any], name: str) -> "asyncio.Task[Any]":
        import asyncio

        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise GreteError(
                f"background got the coroutine function {name}, and no event loop runs here: "
                "only hooks of an asynchronous consumer can start tasks; give it a plain function for a thread"
            ) from None
        with self._lock:
            self._refuse_when_stopping(name)
            task = loop.create_task(fn(*args), name=f"grete-background-{name}")
            self._tasks.add(task)
        task.add_done_callback(self._task_ended)
        return task

    def _refuse_when_stopping(self, name: str) -> None:
        if self._stopped:
            raise GreteError(f"{self.name} is being closed: it cannot start {name} in the background any more")

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        with self._lock:
            self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.log_failure(task.get_name(), error)

    def on_thread_exit(self, thread: BackgroundThread) -> None:
        """Forgets a thread that is about to return."""
        with self._lock:
            if thread in self._threads:
                self._threads.remove(thread)

    def stop(self) -> "tuple[list[BackgroundThread], list[asyncio.Task[Any]]]":
        """Asks all work to end, and returns what has not ended yet. `start` raises from now on."""
        with self._lock:
            self._stopped = True
            if self._stopping is not None:
                self._stopping.set()
            return list(self._threads), list(self._tasks)

    def log_failure(self, name: str, error: BaseException) -> None:
        """Logs the error of the thread or task of that name."""
        log_and_emit(
            self._monitor,
            logger,
            logging.ERROR,
            "background.failed",
            "%s of %s has failed and ended: %s: %s",
            name,
            self.name,
            type(error).__name__,
            error,
            fields={"background": name},
            error=error,
        )

    def __len__(self) -> int:
        return len(self._threads) + len(self._tasks)


def join_all(threads: Sequence[BackgroundThread], deadline: float) -> list[BackgroundThread]:
    """Waits until all threads have ended, or until the deadline (of `time.monotonic()`). Returns those still alive."""
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threads if thread.is_alive()]
