"""Threads that run handlers."""

import threading
from collections.abc import Callable

from grete import _native
from grete._native import Job
from grete._processing.engine.failures import Failures
from grete._processing.engine.hook_runner import HookRunner
from grete._processing.engine.run_control import RunControl


class Worker(threading.Thread):
    """Takes jobs from the dispatcher: one call completes a job and returns the next one."""

    def __init__(
        self,
        number: int,
        dispatcher: _native.Dispatcher,
        hooks: HookRunner,
        failures: Failures,
        control: RunControl,
        on_exit: "Callable[[Worker], None]",
    ) -> None:
        """`on_exit` is called in the thread itself, when it takes no more jobs."""
        super().__init__(name=f"grete-worker-{number}", daemon=False)
        self.number = number
        self.job: Job | None = None
        """Running job, for reports; None: idle."""
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._failures = failures
        self._control = control
        self._on_exit = on_exit

    def run(self) -> None:
        """Runs jobs until the dispatcher stops, or until there are too many workers."""
        try:
            self._run_jobs(_native.Worker(self.name, self._dispatcher, self.number))
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._on_exit(self)
            self._control.on_exit(self)

    def _run_jobs(self, worker: _native.Worker) -> None:
        take, run_job = self._dispatcher.next, self._hooks.run_in_worker
        done: Job | None = None
        # Not `while (job := ...)`: Python 3.11 specializes a loop only at unconditional backward jumps.
        while True:
            job = take(worker, done)
            if job is None:
                return
            self.job = job
            try:
                run_job(job)
            except BaseException as error:
                self._failures.fail(job, error)
                done = None
            else:
                done = job
            self.job = None
