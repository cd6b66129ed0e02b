"""Event loop of the App's own that lives from the first hook to the last, and calls of coroutines on a loop."""

import asyncio
import functools
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grete._process import exit_hooks
from grete._processing.engine.loop_thread import NAME, log_loop_error, new_loop
from grete.instrumentation.monitor import Monitor

# Seconds for cancelled tasks to end at the end of the loop.
_CANCEL_GRACE = 1.0


class HookLoop(threading.Thread):
    """Thread with an event loop for asynchronous hooks, and for asynchronous handlers while the App runs.

    Tasks that a startup hook has left running go on until `end`.
    """

    title = "the event loop"

    def __init__(self, kind: str, monitor: Monitor | None = None) -> None:
        """`kind`: the setting `loop`. Raises ConfigError for uvloop that is not installed."""
        super().__init__(name=NAME, daemon=False)
        self.loop = new_loop(kind)
        self._monitor = monitor
        # Threads of the default executor, which run functions that hooks and jobs pass to `asyncio.to_thread`.
        self._executor_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    def run(self) -> None:
        """Runs the loop until `end`."""
        loop, executor_threads = self.loop, self._executor_threads
        executor = ThreadPoolExecutor(
            thread_name_prefix="grete-loop-executor",
            initializer=lambda: executor_threads.add(threading.current_thread()),
        )
        loop.set_default_executor(executor)
        loop.set_exception_handler(functools.partial(log_loop_error, self._monitor))
        asyncio.set_event_loop(loop)
        try:
            loop.run_forever()
            if loop.run_until_complete(_cancel_all()):
                # A task waits for executor threads, perhaps. They cannot be cancelled, and must not delay the exit.
                exit_hooks.give_up(executor_threads)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            executor.shutdown(wait=False, cancel_futures=True)

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the thread is the loop's, or one of its default executor."""
        return thread is self or thread in self._executor_threads

    def end(self, timeout: float) -> bool:
        """Cancels the remaining tasks and ends the thread. False: it has not ended within `timeout` seconds."""
        if self.ident is None:
            self.loop.close()
            return True
        try:
            self.loop.call_soon_threadsafe(self.loop.stop)
        except RuntimeError:
            pass  # it has ended
        self.join(timeout)
        if self.is_alive():
            exit_hooks.give_up([self])
            return False
        return True


async def _cancel_all() -> bool:
    """Cancels all other tasks. Returns whether one has not ended after `_CANCEL_GRACE` seconds."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    return bool(tasks and (await asyncio.wait(tasks, timeout=_CANCEL_GRACE))[1])


class LoopCall:
    """Call of a coroutine on the loop of another thread. Its end is that of the task, also after `cancel`."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, Any], on_end: Callable[[], None]
    ) -> None:
        """Raises RuntimeError on a closed loop. `on_end` is called in the thread of the loop."""
        self.ended = threading.Event()
        self._loop = loop
        self._coroutine = coroutine
        self._on_end = on_end
        self._task: asyncio.Task[Any] | None = None
        self._cancelled = False
        try:
            loop.call_soon_threadsafe(self._begin)
        except RuntimeError:
            coroutine.close()
            raise

    def result(self) -> Any:
        """Returns what the coroutine returned, or raises what it raised, after its end."""
        assert self._task is not None
        return self._task.result()

    def cancel(self) -> None:
        """Cancels the task. Does nothing on a closed loop, and after the end."""
        try:
            self._loop.call_soon_threadsafe(self._cancel)
        except RuntimeError:
            pass

    def _begin(self) -> None:
        self._task = self._loop.create_task(self._coroutine)
        self._task.add_done_callback(self._on_done)
        if self._cancelled:
            self._task.cancel()

    def _cancel(self) -> None:
        self._cancelled = True
        if self._task is not None:
            self._task.cancel()

    def _on_done(self, _task: "asyncio.Task[Any]") -> None:
        self.ended.set()
        self._on_end()
