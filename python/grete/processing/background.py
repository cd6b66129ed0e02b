"""What an instance runs beside its hooks: threads and tasks that end before it does."""

import inspect
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from grete import _core
from grete.errors import GreteError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger("grete")


class BackgroundThread(threading.Thread):
    """Daemonic: one that cannot be stopped must not keep the process from ending."""

    def __init__(self, owner: "Background", fn: Callable[..., Any], args: Sequence[Any], name: str) -> None:
        super().__init__(name=f"grete-background-{name}", daemon=True)
        self._owner = owner
        self._call: tuple[Callable[..., Any], Sequence[Any]] | None = (fn, args)

    @property
    def owner(self) -> "Background":
        """What it belongs to."""
        return self._owner

    def run(self) -> None:
        """Calls the function and logs what it raises."""
        call, self._call = self._call, None  # the thread object may outlive the instance
        if call is None:
            return
        try:
            call[0](*call[1])
        except BaseException as error:
            self._owner.failed(self.name, error)
        finally:
            self._owner.ended(self)


class Background:
    """The background work of one instance. `start` from any thread; the rest from where its last hook runs."""

    __slots__ = ("_lock", "_monitor", "_over", "_stopping", "_tasks", "_threads", "dispatcher", "name")

    def __init__(self, name: str, dispatcher: _core.Dispatcher, monitor: Monitor | None = None) -> None:
        """`name` is the instance's, for messages; the dispatcher says which App's."""
        self.name = name
        self.dispatcher = dispatcher
        self._monitor = monitor
        self._lock = threading.Lock()
        self._over = False
        self._stopping: threading.Event | None = None
        self._threads: list[BackgroundThread] = []
        self._tasks: set[asyncio.Task[Any]] = set()

    @property
    def stopping(self) -> threading.Event:
        """Set by `stop`. Made when first asked for: most instances run nothing in the background."""
        with self._lock:
            if self._stopping is None:
                self._stopping = threading.Event()
                if self._over:
                    self._stopping.set()
            return self._stopping

    def start(
        self, fn: Callable[..., Any], args: Sequence[Any], name: str | None
    ) -> "threading.Thread | asyncio.Task[Any]":
        """Runs `fn(*args)` in a thread; a coroutine function in a task on the running loop."""
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
        if self._over:
            raise GreteError(f"{self.name} is on its way out: it starts {name} in the background no more")

    def _task_ended(self, task: "asyncio.Task[Any]") -> None:
        with self._lock:
            self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self.failed(task.get_name(), error)

    def ended(self, thread: BackgroundThread) -> None:
        """The thread does nothing any more but return."""
        with self._lock:
            if thread in self._threads:
                self._threads.remove(thread)

    def stop(self) -> "tuple[list[BackgroundThread], list[asyncio.Task[Any]]]":
        """Tells all to end, and says who has not yet. Nothing can be started any more."""
        with self._lock:
            self._over = True
            if self._stopping is not None:
                self._stopping.set()
            return list(self._threads), list(self._tasks)

    def failed(self, name: str, error: BaseException) -> None:
        """The thread or task of that name has raised."""
        tell(
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


def join(threads: Sequence[BackgroundThread], deadline: float) -> list[BackgroundThread]:
    """Waits until all have ended or the deadline (of `time.monotonic()`) has come; returns those that have not."""
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    return [thread for thread in threads if thread.is_alive()]
