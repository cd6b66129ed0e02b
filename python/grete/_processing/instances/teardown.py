"""End of instances: stops their background work, then checks for leaked threads."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from grete._process import stacks
from grete._processing.instances.background import BackgroundThread, join_all
from grete._processing.instances.context import InstanceContext
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger("grete")

# Seconds for background work to end on a revocation. The group waits for it, so it is far below the time after which
# an unresponsive member is fenced (`max.poll.interval.ms`, 5 minutes).
GRACE = 30.0


class InstanceTeardown:
    """Ends the background work of instances, and reports work that does not end. For one run of an App."""

    def __init__(self, leak_detector: ThreadLeakDetector, monitor: Monitor | None = None) -> None:
        self._leak_detector = leak_detector
        self._monitor = monitor
        self._shutdown_deadline: float | None = None

    def begin_shutdown(self, deadline: float) -> None:
        """Begins the stop of the App: no wait goes beyond the deadline (of `time.monotonic()`) from now on."""
        self._shutdown_deadline = deadline

    @property
    def is_shutting_down(self) -> bool:
        """Whether the App stops."""
        return self._shutdown_deadline is not None

    async def stop_background(
        self, contexts: Sequence[InstanceContext], blocking: Callable[..., Awaitable[Any]]
    ) -> None:
        """Asks the background work of these instances to end, waits for it, and reports what has not ended in time."""
        threads: list[BackgroundThread] = []
        tasks: list[asyncio.Task[Any]] = []
        for context in contexts:
            some_threads, some_tasks = context.background.stop()
            threads += some_threads
            tasks += some_tasks
        if not threads and not tasks:
            return
        deadline = time.monotonic() + GRACE
        if self._shutdown_deadline is not None:
            deadline = min(deadline, self._shutdown_deadline)
        if tasks:
            await _cancel_and_wait(tasks, deadline, self._monitor)
        if threads:
            log_unfinished(await blocking(join_all, threads, deadline), self._monitor)

    def check_leaks(self, contexts: Sequence[InstanceContext]) -> None:
        """Checks closed instances for threads that their hooks have started themselves."""
        for context in contexts:
            if context.unmanaged_threads:
                self._leak_detector.on_instance_closed(context)


async def _cancel_and_wait(tasks: "Sequence[asyncio.Task[Any]]", deadline: float, monitor: Monitor | None) -> None:
    import asyncio

    for task in tasks:
        task.cancel()
    _, unfinished = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    for task in unfinished:
        text = "task %s was cancelled and did not end in time; it is left running"
        name = task.get_name()
        log_and_emit(monitor, logger, logging.WARNING, "thread.leaked", text, name, fields={"leaked": name})


def log_unfinished(threads: Sequence[BackgroundThread], monitor: Monitor | None) -> None:
    """Logs threads that have not ended in time, with their stacks."""
    frames = stacks.of_threads(thread.ident for thread in threads)
    for thread in threads:
        log_and_emit(
            monitor,
            logger,
            logging.WARNING,
            "thread.leaked",
            "%s of %s did not end in time after self.stopping was set; it is left running as a daemon thread%s",
            thread.name,
            thread.owner.name,
            f"\n{frames[thread.ident]}" if thread.ident in frames else "",
            fields={"leaked": thread.name},
        )
