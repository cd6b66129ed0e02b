"""Jobs from the dispatcher through a worker, or the event loop, to a handler and back: all but network and broker."""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from benchmarks.common.instructions import Instructions
from grete import _native
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._processing.engine.failures import Failures
from grete._processing.engine.hook_runner import HookRunner
from grete._processing.engine.loop_thread import LoopThread
from grete._processing.engine.run_control import JobThread
from grete._processing.engine.worker import Worker
from grete._processing.instances.registry import InstanceRegistry
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from grete._routing.routes import Route, make_route
from grete.instrumentation import Monitor
from tests.unit.record_batches import Record, batch

from .hooks_without_events import both
from .measurement import Cost
from .shapes import Shape

LANES = 8
# Of a round's jobs, so large a part runs before the clock starts.
WARM_UP = 0.1

HOOKS = both(random.random() < 0.5)


@dataclass
class Clock:
    """Read by the handler itself, in its thread, when the first jobs are done and when all are."""

    jobs: int
    # Sends what waits, before the clock is read: that is part of the cost.
    settle: Callable[[], object]
    instructions: Instructions | None = None
    begin: tuple[float, float, int | None] | None = None
    cost: Cost | None = None

    def reached(self) -> bool:
        """The second time, True: that was all."""
        if self.instructions is None:
            self.instructions = Instructions()  # of this thread
        self.settle()
        thread, process, instructions = time.thread_time(), time.process_time(), self.instructions.read()
        if self.begin is None:
            self.begin = thread, process, instructions
            return False
        each = 1e6 / self.jobs
        counted = None if instructions is None or self.begin[2] is None else (instructions - self.begin[2]) / self.jobs
        self.cost = Cost((thread - self.begin[0]) * each, (process - self.begin[1]) * each, counted)
        self.instructions.close()
        return True


class Control:
    """Control of a run that must not fail."""

    def __init__(self, dispatcher: _native.Dispatcher) -> None:
        self._dispatcher = dispatcher
        self.error: BaseException | None = None

    def fail(self, error: BaseException) -> None:
        """Kept, to be raised when the jobs have ended, which is now."""
        self.error = self.error or error
        self._dispatcher.release_workers()

    def on_exit(self, thread: JobThread) -> None:
        """Does nothing: no thread waits for it."""

    @property
    def stopping(self) -> bool:
        """Never before the jobs have ended."""
        return False


def batches(shape: Shape, count: int) -> list[bytes]:
    """One after the other, as a broker would have them: the same bytes at other offsets, which no checksum covers."""
    data = batch([Record(at, shape.value) for at in range(shape.records)])
    return [(number * shape.records).to_bytes(8, "big") + data[8:] for number in range(count)]


def run(
    shape: Shape, jobs: int, monitor: Monitor, *, silent: bool = False, settle: Callable[[], object] = lambda: None
) -> Cost:
    """So many jobs in the calling thread, and what one costs, `settle()` included.

    `silent`: with all calls taken out that emit events.
    """
    dispatcher = _native.Dispatcher(events=() if silent else monitor.job_events)
    control, clock, warm_up = Control(dispatcher), Clock(jobs, settle), max(1, int(WARM_UP * jobs))

    def reached() -> int:
        if not clock.reached():
            return jobs
        if shape.asynchronous:
            dispatcher.stop()
        else:
            dispatcher.set_workers(0)
        return -1

    shape.start(reached, warm_up)
    route = make_route(0, ("orders",), shape.handler, {})
    core = _native.Route(
        id=0,
        name=route.name,
        topics=["orders"],
        max_messages=shape.records,
        pool="loop" if shape.asynchronous else "threads",
    )
    parts = _Parts(dispatcher, control, {0: route}, monitor, HOOKS[silent])
    each = (jobs + warm_up) // LANES + 1
    data = batches(shape, each)
    for partition in range(LANES):
        lane = _native._TestingLane(dispatcher, core, "orders", partition)
        for one in data:
            lane.push(one)
        parts.lanes.append(lane)
    gc.collect()
    parts.work(asynchronous=shape.asynchronous)
    if control.error is not None:
        raise control.error
    if clock.cost is None:
        raise AssertionError("the jobs ended before their time")
    return clock.cost


class _Parts:
    """Parts of an App between its dispatcher and its handlers."""

    def __init__(
        self,
        dispatcher: _native.Dispatcher,
        control: Control,
        routes: Mapping[int, Route],
        monitor: Monitor,
        kind: type[HookRunner],
    ) -> None:
        unused: Any = None
        clients: Any = {0: None}
        self.lanes: list[_native._TestingLane] = []
        self._dispatcher = dispatcher
        self._control = control
        self._monitor = monitor
        self._failures = Failures(routes, dispatcher, control, monitor)
        instances = InstanceRegistry(dispatcher, clients, unused, monitor)
        departure = InstanceTeardown(ThreadLeakDetector(False), monitor)
        letters = DeadLetters(unused, {0: "billing"}, monitor)
        groups = {0: "benchmark"}
        self._new_hooks = partial(kind, routes, instances, departure, letters, clients, groups, monitor=monitor)

    def work(self, *, asynchronous: bool) -> None:
        """Runs as a worker's thread, or as the loop's, until the end."""
        dispatcher, control = self._dispatcher, self._control
        if asynchronous:
            LoopThread(dispatcher, self._new_hooks, self._failures, control, "auto", self._monitor).run()
        else:
            Worker(1, dispatcher, self._new_hooks(), self._failures, control, lambda _: None).run()
