"""The threads that run handlers."""

import threading
from collections.abc import Callable

from grete import _core
from grete._core import Job
from grete.processing.failures import Control, Failures
from grete.processing.hooks import Hooks


class Worker(threading.Thread):
    """Takes jobs straight from the dispatcher: the call that gives a job back brings the next one."""

    def __init__(
        self,
        number: int,
        dispatcher: _core.Dispatcher,
        hooks: Hooks,
        failures: Failures,
        control: Control,
        over: "Callable[[Worker], None]",
    ) -> None:
        """`over` is called in the thread itself when it takes no more jobs."""
        super().__init__(name=f"grete-worker-{number}", daemon=False)
        self.number = number
        self.job: Job | None = None
        """What runs just now, for reports."""
        self._dispatcher = dispatcher
        self._hooks = hooks
        self._failures = failures
        self._control = control
        self._over = over

    def run(self) -> None:
        """Works until the dispatcher says that it is over, or that there are workers enough."""
        try:
            self._work(_core.Worker(self.name, self._dispatcher, self.number))
        except BaseException as error:
            self._control.fail(error)
        finally:
            self._over(self)
            self._control.ending(self)

    def _work(self, worker: _core.Worker) -> None:
        take, work = self._dispatcher.next, self._hooks.work
        done: Job | None = None
        # Not `while (job := ...)`: Python 3.11 learns to run a loop faster at jumps back without a condition only.
        while True:
            job = take(worker, done)
            if job is None:
                return
            self.job = job
            try:
                work(job)
            except BaseException as error:
                self._failures.fail(job, error)
                done = None
            else:
                done = job
            self.job = None
