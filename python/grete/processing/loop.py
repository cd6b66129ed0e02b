"""The event loop's thread: runs the hooks of asynchronous consumers."""

import asyncio
import contextvars
import functools
import logging
import threading
import weakref
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from grete import _core
from grete._core import Job
from grete.errors import ConfigError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import atexit
from grete.processing.failures import Control, Failures
from grete.processing.hooks import Blocking, Hooks

logger = logging.getLogger("grete")

# What cancelled tasks have to end, in seconds, when nobody waits for them any more.
_LAST_WORDS = 1.0


async def in_executor(function: Callable[..., Any], *args: object) -> Any:
    """Calls a function that blocks in another thread."""
    return await asyncio.get_running_loop().run_in_executor(None, function, *args)


def new_loop(kind: str) -> asyncio.AbstractEventLoop:
    """A loop of the kind that the setting `loop` names: "auto" is uvloop where it is installed."""
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


class LoopWorker(threading.Thread):
    """One for all asynchronous routes. The dispatcher makes a descriptor readable when there are jobs or cancellations;
    each job is a task, as many at once as lanes are ready.
    """

    def __init__(
        self,
        dispatcher: _core.Dispatcher,
        new_hooks: Callable[[Blocking], Hooks],
        failures: Failures,
        control: Control,
        kind: str,
        monitor: Monitor | None = None,
    ) -> None:
        """`kind` is the setting `loop`."""
        super().__init__(name="grete-loop", daemon=False)
        self._dispatcher = dispatcher
        self._hooks = new_hooks(in_executor)
        self._failures = failures
        self._control = control
        self._kind = kind
        self._monitor = monitor
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, tuple[Job, asyncio.Task[None]]] = {}
        self._cancelled: set[int] = set()
        self.cut = 0
        """Jobs that were cancelled, because their partition or their time was gone."""
        self._over: asyncio.Future[None] | None = None
        # Those of the default executor, which run what jobs give to `asyncio.to_thread`.
        self._helpers: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    @property
    def tasks(self) -> Mapping[int, tuple[Job, "asyncio.Task[None]"]]:
        """What runs just now, by `Job.id`. A copy, for reports from other threads."""
        return dict(self._tasks)

    @property
    def current(self) -> "asyncio.Task[Any] | None":
        """The task that has the thread just now; None when all of them wait. For reports from other threads."""
        return asyncio.current_task(self._loop) if self._loop is not None else None

    def helped_by(self, thread: threading.Thread) -> bool:
        """Whether the thread is one of the loop's default executor."""
        return thread in self._helpers

    def run(self) -> None:
        """Works until the dispatcher says that it is over."""
        try:
            self._run()
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._control.ending(self)

    def _run(self) -> None:
        loop = self._loop = new_loop(self._kind)
        helpers = self._helpers
        executor = ThreadPoolExecutor(
            thread_name_prefix="grete-loop-executor", initializer=lambda: helpers.add(threading.current_thread())
        )
        loop.set_default_executor(executor)
        loop.set_exception_handler(functools.partial(_tell_loop_error, self._monitor))
        asyncio.set_event_loop(loop)
        try:
            loop.run_until_complete(self._serve())
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            executor.shutdown(wait=False, cancel_futures=True)

    async def _serve(self) -> None:
        loop = asyncio.get_running_loop()
        self._over = loop.create_future()
        # Every job starts with what the thread had at its beginning: nothing that another job has set.
        context = contextvars.copy_context()
        fd = self._dispatcher.start_loop()
        loop.add_reader(fd, self._take, context)
        try:
            await self._over
        finally:
            loop.remove_reader(fd)
        # Nothing is left to do; or the time of a stop is up, and what is left will have to go, as will tasks that
        # handlers have started and forgotten.
        if self._tasks:
            # Their threads cannot be cancelled: the interpreter's end must not wait for these, either.
            atexit.abandon(self._helpers)
        for number in list(self._tasks):
            self._cancel(number)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        if others:
            await asyncio.wait(others, timeout=_LAST_WORDS)

    def _take(self, context: contextvars.Context) -> None:
        """The descriptor is readable. An exception here would come again with each turn of the loop: it ends it."""
        try:
            jobs, cancellations = self._dispatcher.take_loop()
            loop = asyncio.get_running_loop()
            for job in jobs:
                task = loop.create_task(self._work(job), name=f"grete-job-{job.id}", context=context.copy())
                self._tasks[job.id] = job, task
                task.add_done_callback(functools.partial(self._ended, job))
            for number in cancellations:
                self._cancel(number)
            over = self._dispatcher.loop_stopped()
        except BaseException as error:
            self._control.fail(error)
            over = True
        if over and self._over is not None and not self._over.done():
            self._over.set_result(None)

    def _cancel(self, number: int) -> None:
        if (found := self._tasks.get(number)) is not None:
            self._cancelled.add(number)
            self.cut += 1
            found[1].cancel()

    def _ended(self, job: Job, task: "asyncio.Task[None]") -> None:
        self._cancelled.discard(job.id)
        try:
            # A task that is cancelled before its first step runs nothing of itself: then nobody has given the job back.
            if self._tasks.pop(job.id, None) is not None:
                self._failures.cancelled(job, asyncio.CancelledError())
            if not task.cancelled() and (error := task.exception()) is not None:  # of ours, not of a handler's
                self._control.fail(error)
        except BaseException as error:
            self._control.fail(error)

    async def _work(self, job: Job) -> None:
        try:
            await self._hooks.run(job)
        except asyncio.CancelledError as error:
            del self._tasks[job.id]
            if job.id in self._cancelled:
                self._failures.cancelled(job, error)
            else:
                self._failures.fail(job, error)
        except BaseException as error:
            del self._tasks[job.id]
            self._failures.fail(job, error)
        else:
            del self._tasks[job.id]
            self._dispatcher.complete(job)


def _tell_loop_error(monitor: Monitor | None, _loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    error = context.get("exception")
    details = "".join(f"\n{name}: {value!r}" for name, value in context.items() if name not in ("message", "exception"))
    tell(monitor, logger, logging.ERROR, "loop.error", "%s%s", context["message"], details, error=error)
