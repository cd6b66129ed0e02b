"""Event loop of a host, for example of a web server, that also runs the hooks of asynchronous consumers."""

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
from grete.errors import ConfigError, HostLoopError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

NAME = "the host's event loop"


class HostLoop:
    """Job thread on a host's loop: to a stop it looks like a thread that ends when no job runs on the loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        dispatcher: _native.Dispatcher,
        new_hook_runner: Callable[[RunBlocking], HookRunner],
        failures: Failures,
        control: RunControl,
        monitor: Monitor | None = None,
        title: str = NAME,
    ) -> None:
        """`loop` is running, in any thread. `title`: the loop's, for reports."""
        self._loop = loop
        self.title = title
        self._control = control
        self._monitor = monitor
        self._executor_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
        executor_threads = self._executor_threads
        # Not the host's executor, which may be full of functions that wait for the App.
        self._executor = ThreadPoolExecutor(
            thread_name_prefix="grete-loop-executor",
            initializer=lambda: executor_threads.add(threading.current_thread()),
        )
        # A partial instead of a method: a reference cycle would keep descriptors until the next garbage collection.
        blocking = functools.partial(_in_executor, loop, self._executor)
        self.runner = AsyncJobRunner(dispatcher, new_hook_runner(blocking), failures, control, title, on_host_loop=True)
        self._task: asyncio.Task[None] | None = None
        self._ended = threading.Event()

    @property
    def name(self) -> str:
        """Name in reports."""
        return self.title if self.is_running else f"{self.title}, which does not run"

    @property
    def ident(self) -> int | None:
        """Ident of the loop's thread; None before it has begun to serve, and while the loop does not run."""
        return self.runner.ident if self.is_running else None

    @property
    def is_running(self) -> bool:
        """Whether the loop runs."""
        return self._loop.is_running()

    @property
    def is_lost(self) -> bool:
        """Whether the loop was closed while the App still needs it."""
        return not self._ended.is_set() and self._loop.is_closed()

    def is_alive(self) -> bool:
        """Returns whether jobs run on the loop, or may still begin."""
        return not self._ended.is_set() and not self._loop.is_closed()

    def join(self, timeout: float | None = None) -> None:
        """Waits for its end, at most `timeout` seconds; None: no limit."""
        self._ended.wait(timeout)

    def start(self) -> None:
        """Begins to serve at the loop's next turn, in the caller's context. Raises HostLoopError on a closed loop."""
        try:
            self._loop.call_soon_threadsafe(self._begin)
        except RuntimeError as error:
            self._finish()
            raise HostLoopError(f"{self.title} is closed: start the App while it runs") from error

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the caller is on the loop, or works for a job: the end of the run must not wait for its
        return.
        """
        return thread in self._executor_threads or self.runner.is_running_caller or is_current_loop(self._loop)

    def return_jobs(self) -> None:
        """Returns the jobs of a lost loop unprocessed, and ends the App with HostLoopError."""
        # First `fail`, which stops the dispatcher, so that returned jobs are not handed out again.
        self._control.fail(HostLoopError(f"{self.title} was closed while the App ran: {_REMEDY}"))
        self.runner.return_jobs()
        self._finish()

    def _begin(self) -> None:
        if not self._ended.is_set():
            self._task = self._loop.create_task(self._run(), name="grete-loop")

    async def _run(self) -> None:
        try:
            await self.runner.serve()
        except asyncio.CancelledError:
            if not self._control.stopping or self.runner.cancelled_jobs:
                self._control.fail(HostLoopError(f"{self.title} ended while the App ran: {_REMEDY}"))
            self.runner.return_jobs()
            raise
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._task = None
            self._log_unfinished()
            self._finish()

    def _log_unfinished(self) -> None:
        unfinished = self.runner.tasks
        if unfinished:
            exit_hooks.give_up(self._executor_threads)
        for job, task in unfinished.values():
            text = "%s[%s]: task %s was cancelled and did not end in time; it is left running"
            fields = {"leaked": task.get_name()}
            place = job.topic, job.partition
            log_and_emit(
                self._monitor, logger, logging.WARNING, "thread.leaked", text, *place, task.get_name(), fields=fields
            )

    def _finish(self) -> None:
        self._executor.shutdown(wait=False, cancel_futures=True)
        self._ended.set()
        self._control.on_exit(self)


_REMEDY = (
    "what its handlers had not marked will be processed again. Stop the App before the loop ends, with "
    "`async with app.running()` or `await asyncio.to_thread(app.stop)`"
)


async def _in_executor(
    loop: asyncio.AbstractEventLoop, executor: ThreadPoolExecutor, function: Callable[..., Any], *args: object
) -> Any:
    return await loop.run_in_executor(executor, function, *args)


def is_current_loop(loop: asyncio.AbstractEventLoop) -> bool:
    """Returns whether the caller runs on this loop."""
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


def resolve_host_loop(kind: str, starting_loop: asyncio.AbstractEventLoop | None) -> asyncio.AbstractEventLoop | None:
    """Returns the loop that the setting `loop` means; None: a loop of the App's own.

    `starting_loop`: the loop that called the start. Raises ConfigError for "host" without a running loop.
    """
    if kind == "auto":
        return starting_loop
    if kind != "host" or starting_loop is not None:
        return starting_loop if kind == "host" else None
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise ConfigError(
            'loop="host", and the App is not started on a running event loop: use grete.asgi.lifespan or '
            '`async with app.running()`, or leave loop at "auto"',
            setting="loop",
        ) from None
