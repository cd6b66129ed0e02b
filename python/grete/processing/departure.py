"""How instances go: their background work ends first, then what they leave behind is looked at."""

import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import stacks
from grete.processing.background import BackgroundThread, join
from grete.processing.host import Host
from grete.processing.leaks import Leaks

if TYPE_CHECKING:
    import asyncio

logger = logging.getLogger("grete")

# What background work has to end, in seconds, when a partition goes to another member. The group waits for it, so it is
# far below the time after which a member that does not answer is thrown out (`max.poll.interval.ms`, 5 minutes).
GRACE = 30.0


class Departure:
    """Ends the background work of instances and reports what will not end. For one run of an App."""

    def __init__(self, leaks: Leaks, monitor: Monitor | None = None) -> None:
        self._leaks = leaks
        self._monitor = monitor
        self._leave_by: float | None = None

    def leave(self, deadline: float) -> None:
        """The App stops: from now on nothing is waited for beyond the deadline (of `time.monotonic()`)."""
        self._leave_by = deadline

    @property
    def leaving(self) -> bool:
        """Whether the App stops."""
        return self._leave_by is not None

    async def stop_background(self, hosts: Sequence[Host], blocking: Callable[..., Awaitable[Any]]) -> None:
        """Tells the background work of these instances to end, and waits for it; reports what has not ended in time."""
        threads: list[BackgroundThread] = []
        tasks: list[asyncio.Task[Any]] = []
        for host in hosts:
            some_threads, some_tasks = host.background.stop()
            threads += some_threads
            tasks += some_tasks
        if not threads and not tasks:
            return
        deadline = time.monotonic() + GRACE
        if self._leave_by is not None:
            deadline = min(deadline, self._leave_by)
        if tasks:
            await _cancelled(tasks, deadline, self._monitor)
        if threads:
            report_late(await blocking(join, threads, deadline), self._monitor)

    def gone(self, hosts: Sequence[Host]) -> None:
        """The instances are gone: what their hooks have started themselves should be, too."""
        for host in hosts:
            if host.raw_threads:
                self._leaks.gone(host)


async def _cancelled(tasks: "Sequence[asyncio.Task[Any]]", deadline: float, monitor: Monitor | None) -> None:
    import asyncio

    for task in tasks:
        task.cancel()
    _, late = await asyncio.wait(tasks, timeout=max(0.0, deadline - time.monotonic()))
    for task in late:
        text = "task %s was cancelled and has not ended in time; it goes on alone"
        name = task.get_name()
        tell(monitor, logger, logging.WARNING, "thread.leaked", text, name, fields={"leaked": name})


def report_late(threads: Sequence[BackgroundThread], monitor: Monitor | None) -> None:
    """Says that these have not ended in time, and what they do."""
    frames = stacks.of_threads(thread.ident for thread in threads)
    for thread in threads:
        tell(
            monitor,
            logger,
            logging.WARNING,
            "thread.leaked",
            "%s of %s was told to end by self.stopping and has not in time; it goes on alone%s",
            thread.name,
            thread.owner.name,
            f"\n{frames[thread.ident]}" if thread.ident in frames else "",
            fields={"leaked": thread.name},
        )
