"""Thread with an event loop that runs the hooks of asynchronous consumers."""

import asyncio
import functools
import logging
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grete import _native
from grete._process import exit_hooks
from grete._processing.engine.async_job_runner import AsyncJobRunner
from grete._processing.engine.failures import Failures
from grete._processing.engine.hook_runner import HookRunner, RunBlocking
from grete._processing.engine.run_control import RunControl
from grete.errors import ConfigError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

NAME = "grete-loop"


async def run_in_executor(function: Callable[..., Any], *args: object) -> Any:
    """Calls a function that blocks in an executor thread."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """Creates a loop for the setting `loop`: "auto" and "own" are uvloop if it is installed."""
    if kind == "asyncio":
        return asyncio.new_event_loop()
    try:
        import uvloop
    except ImportError:
        if kind == "uvloop":
            raise ConfigError(
                'loop="uvloop", and uvloop is not installed: pip install uvloop, or leave loop at "auto"',
                setting="loop",
            ) from None
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class LoopThread(threading.Thread):
    """Thread with the App's own event loop, for all asynchronous routes."""

    title = "the event loop"

    def __init__(
        self,
        dispatcher: _native.Dispatcher,
        new_hook_runner: Callable[[RunBlocking], HookRunner],
        failures: Failures,
        control: RunControl,
        kind: str,
        monitor: Monitor | None = None,
    ) -> None:
        """`kind`: the setting `loop`."""
        super().__init__(name=NAME, daemon=False)
        self.runner = AsyncJobRunner(
            dispatcher, new_hook_runner(run_in_executor), failures, control, NAME, on_host_loop=False
        )
        self._control = control
        self._kind = kind
        self._monitor = monitor
        # Threads of the default executor, which run functions that jobs pass to `asyncio.to_thread`.
        self._executor_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    @property
    def is_running(self) -> bool:
        """Whether the loop runs."""
        return self.is_alive()

    @property
    def is_lost(self) -> bool:
        """Always False: the loop belongs to this thread."""
        return False

    def return_jobs(self) -> None:
        """Does nothing: see `is_lost`."""

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the calling thread is the loop's or one of its default executor, or works for a job."""
        return thread is self or thread in self._executor_threads or self.runner.is_running_caller

    def run(self) -> None:
        """Runs jobs until the dispatcher stops."""
        try:
            self._run()
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._control.on_exit(self)

    def _run(self) -> None:
        loop = new_loop(self._kind)
        executor_threads = self._executor_threads
        executor = ThreadPoolExecutor(
            thread_name_prefix="grete-loop-executor",
            initializer=lambda: executor_threads.add(threading.current_thread()),
        )
        loop.set_default_executor(executor)
        loop.set_exception_handler(functools.partial(log_loop_error, self._monitor))
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self.runner.serve(self._abandon_executor_threads))
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            executor.shutdown(wait=False, cancel_futures=True)

    def _abandon_executor_threads(self) -> None:
        """Gives up executor threads that still work for a job: they cannot be cancelled, and must not delay exit."""
        if self.runner.tasks:
            exit_hooks.give_up(self._executor_threads)


def log_loop_error(monitor: Monitor | None, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Logs an error that no task has got, as the exception handler of a loop."""
    error = context.get("exception")
    details = "".join(f"\n{name}: {value!r}" for name, value in context.items() if name not in ("message", "exception"))
    log_and_emit(monitor, logger, logging.ERROR, "loop.error", "%s%s", context["message"], details, error=error)
