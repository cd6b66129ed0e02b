"""Runs the jobs of asynchronous consumers as tasks on one event loop, the App's own or a host's."""

import asyncio
import contextvars
import functools
import os
import select
import threading
from collections.abc import Callable, Mapping

from grete import _native
from grete._native import Job
from grete._processing.engine.failures import Failures
from grete._processing.engine.hook_runner import HookRunner, consume_plain
from grete._processing.engine.run_control import RunControl

# Seconds for cancelled tasks to end at the end of the run.
_CANCEL_GRACE = 1.0

# In the context of a job's task, and of tasks that it has started: the runner of the job.
_CURRENT_RUNNER: contextvars.ContextVar["AsyncJobRunner | None"] = contextvars.ContextVar("grete_loop", default=None)


class AsyncJobRunner:
    """Runs each job as a task, as many at once as units are ready: a route's `max_in_flight` bounds them.

    The dispatcher makes a descriptor readable when there are jobs or cancellations.
    """

    def __init__(
        self,
        dispatcher: _native.Dispatcher,
        hooks: HookRunner,
        failures: Failures,
        control: RunControl,
        name: str,
        on_host_loop: bool,
    ) -> None:
        """`name`: the loop's, for reports. `on_host_loop`: the loop belongs to a host, and has tasks of its own."""
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._failures = failures
        self._control = control
        self._name = name
        self._on_host_loop = on_host_loop
        self._pid = os.getpid()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[int, tuple[Job, asyncio.Task[None]]] = {}
        self._started: set[int] = set()
        self._cancelled: set[int] = set()
        self._finished: asyncio.Future[None] | None = None
        self.ident: int | None = None
        """Ident of the loop's thread; None before it serves."""
        self.cancelled_jobs = 0
        """Number of jobs that were cancelled, because their partition was revoked, their time was up or their loop
        closed.
        """

    @property
    def tasks(self) -> Mapping[int, tuple[Job, "asyncio.Task[None]"]]:
        """Started jobs that have not ended, by `Job.id`. A copy, for reports from other threads."""
        return dict(self._tasks)

    @property
    def started_jobs(self) -> int:
        """Number of jobs among `tasks` that have run their first step."""
        return len(self._started)

    @property
    def current(self) -> "asyncio.Task[object] | None":
        """Task that is running now; None: all tasks wait. For reports from other threads."""
        return asyncio.current_task(self._loop) if self._loop is not None else None

    @property
    def is_running_caller(self) -> bool:
        """Whether the caller is a job, or code that a job has started with its context."""
        return _CURRENT_RUNNER.get() is self

    async def serve(self, before_cancel: Callable[[], None] = lambda: None) -> None:
        """Runs jobs until the dispatcher stops. Then, or when it is cancelled itself, cancels the remaining jobs and
        gives them `_CANCEL_GRACE` seconds.

        `before_cancel` is called when no more jobs will be started.
        """
        loop = self._loop = asyncio.get_running_loop()
        self.ident = threading.get_ident()
        self._finished = loop.create_future()
        # Every job starts with the initial context: no job sees what another job has set.
        context = contextvars.copy_context()
        context.run(_CURRENT_RUNNER.set, self)
        fd = self._dispatcher.start_async(self._name)
        loop.add_reader(fd, self._on_readable, context)
        try:
            await self._finished
        finally:
            loop.remove_reader(fd)
            before_cancel()
            # Either no job is left, or the time of a stop is up, and the remaining jobs have to go.
            await self._cancel_all()
            await self._hooks.end_async_providers()

    def start_job(self, job: Job, context: contextvars.Context) -> "asyncio.Task[None]":
        """Starts the job as a task on the running loop, in a copy of `context`. The task returns the job at its end."""
        loop = asyncio.get_running_loop()
        task = loop.create_task(self._run_job(job), name=f"grete-job-{job.id}", context=context.copy())
        self._tasks[job.id] = job, task
        task.add_done_callback(functools.partial(self._on_task_done, job))
        return task

    def return_jobs(self) -> None:
        """Returns all jobs unprocessed after the loop was closed, and those that still arrive until the end of the run.

        Thread-safe, once the stop has begun.
        """
        for job, _ in list(self._tasks.values()):
            if self._tasks.pop(job.id, None) is not None:
                self.cancelled_jobs += 1
                self._failures.return_cancelled(job, asyncio.CancelledError())
        threading.Thread(target=self._return_late_jobs, name="grete-loop-lost", daemon=True).start()

    def _return_late_jobs(self) -> None:
        try:
            ready = select.poll()
            ready.register(self._dispatcher.start_async(self._name), select.POLLIN)
            while not self._dispatcher.async_stopped():
                ready.poll()
                for job in self._dispatcher.take_async_jobs()[0]:
                    self._failures.return_cancelled(job, asyncio.CancelledError())
        except Exception as error:
            self._control.fail(error)

    async def _cancel_all(self) -> None:
        jobs = {task for _, task in self._tasks.values()}
        for number in list(self._tasks):
            self._cancel(number)
        # The App's own loop ends, so tasks that handlers have started and forgotten are cancelled, too.
        others = set() if self._on_host_loop else asyncio.all_tasks() - {asyncio.current_task()} - jobs
        for task in others:
            task.cancel()
        if jobs or others:
            await asyncio.wait(jobs | others, timeout=_CANCEL_GRACE)

    def _on_readable(self, context: contextvars.Context) -> None:
        """Handles the readable descriptor. An exception here would be repeated with each turn, so it ends the run."""
        if os.getpid() != self._pid:
            return  # a forked child that goes on with its parent's loop: the jobs are the parent's
        try:
            jobs, cancellations = self._dispatcher.take_async_jobs()
            for job in jobs:
                self.start_job(job, context)
            for number in cancellations:
                self._cancel(number)
            over = self._dispatcher.async_stopped()
        except BaseException as error:
            self._control.fail(error)
            over = True
        if over and self._finished is not None and not self._finished.done():
            self._finished.set_result(None)

    def _cancel(self, number: int) -> None:
        if (found := self._tasks.get(number)) is not None:
            self._cancelled.add(number)
            self.cancelled_jobs += 1
            found[1].cancel()

    def _on_task_done(self, job: Job, task: "asyncio.Task[None]") -> None:
        try:
            # A job whose produced records have failed comes back under its number, perhaps before this callback runs:
            # what is known under the number belongs to the new task then.
            found = self._tasks.get(job.id)
            if found is None or found[1] is task:
                self._cancelled.discard(job.id)
                self._started.discard(job.id)
            # A task that is cancelled before its first step runs no code, so its job has not been returned yet.
            if found is not None and found[1] is task:
                del self._tasks[job.id]
                self._failures.return_cancelled(job, asyncio.CancelledError())
            if (
                not task.cancelled() and (error := task.exception()) is not None
            ):  # an error of this class, not of a handler
                self._control.fail(error)
        except BaseException as error:
            self._control.fail(error)

    async def _run_job(self, job: Job) -> None:
        try:
            self._started.add(job.id)
            self._dispatcher.begin(job)
            if (instance := self._hooks.ready_instance(job)) is None:
                await self._hooks.run(job)
            elif job.unobserved:
                await consume_plain(instance, job)
            else:
                await self._hooks.await_with_events(instance, job)
        except asyncio.CancelledError as error:
            if self._tasks.pop(job.id, None) is None:
                return  # returned meanwhile
            if job.id in self._cancelled:
                self._failures.return_cancelled(job, error)
            elif self._on_host_loop and self._is_task_cancelled():
                self.cancelled_jobs += 1
                self._failures.return_cancelled(job, error)
            else:
                self._failures.fail(job, error)
        except BaseException as error:
            if self._tasks.pop(job.id, None) is not None:
                self._failures.fail(job, error)
        else:
            if self._tasks.pop(job.id, None) is not None:
                self._dispatcher.complete(job)

    def _is_task_cancelled(self) -> bool:
        """Returns whether the host has cancelled the current task, as `asyncio.run` does with all tasks at its end."""
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
