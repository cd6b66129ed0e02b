"""Jobs of one record, from the dispatcher through a worker to a handler and back, traced or not: all but the network.

AGENT SECONDS, or "none": prints a line for each handler.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import grete
from benchmarks.common.process import peak_rss
from grete import _native
from grete._processing.engine.dead_letter_writer import DeadLetters
from grete._processing.engine.failures import Failures
from grete._processing.engine.hook_runner import HookRunner
from grete._processing.engine.worker import Worker
from grete._processing.instances.registry import InstanceRegistry
from grete._processing.instances.teardown import InstanceTeardown
from grete._processing.instances.thread_leaks import ThreadLeakDetector
from grete._routing.routes import make_route
from grete.instrumentation import Monitor
from grete.instrumentation.datadog import Tracer
from tests.unit.record_batches import Record, batch

# Records that are pushed at once, and between two readings of the clock.
PUSHED = 500
# Turns of a loop: some fifty microseconds.
STEPS = 3_000


def empty() -> None:
    """A handler that does nothing: what is left is what a job costs."""


def works() -> None:
    """One that has something to do."""
    value = 0
    for step in range(STEPS):
        value ^= step


HANDLERS: dict[str, Callable[[], None]] = {"empty": empty, "works": works}


class Control:
    """Control of a run that must not fail."""

    def fail(self, error: BaseException) -> None:
        """Ends the process at once: the count would never be complete."""
        print(f"a job has failed: {error!r}", file=sys.stderr, flush=True)
        os._exit(1)

    def on_exit(self, thread: object) -> None:
        """Does nothing: no thread waits for it."""

    @property
    def stopping(self) -> bool:
        """Never before the process ends."""
        return False


class Feed:
    """A partition that always has more, and the clock that ends it."""

    def __init__(self, work: Callable[[], None], monitor: Monitor, seconds: float) -> None:
        self.jobs = 0
        self.took = self.cpu = 0.0
        self._work, self._seconds = work, seconds
        self._data = batch([Record(at, b"x") for at in range(PUSHED)])
        self._first = itertools.count(0, PUSHED)
        self._begin: tuple[int, float, float] | None = None
        self._dispatcher = _native.Dispatcher(events=monitor.job_events)
        self._route = make_route(0, ("orders",), self.handle, {"max_messages": 1})
        core = _native.Route(id=0, name=self._route.name, topics=["orders"], max_messages=1)
        self._lane = _native._TestingLane(self._dispatcher, core, "orders", 0)
        self._monitor = monitor

    def handle(self, _messages: grete.Messages) -> None:
        """One record."""
        self._work()
        self.jobs += 1
        if self.jobs % PUSHED == 0:
            self._look()

    def _look(self) -> None:
        self._push()
        now, cpu = time.perf_counter(), time.process_time()
        if self._begin is None:
            # What is done once has been done.
            self._begin = self.jobs, now, cpu
        elif now - self._begin[1] >= self._seconds:
            jobs, begin, cpu_begin = self._begin
            self.jobs, self.took, self.cpu = self.jobs - jobs, now - begin, cpu - cpu_begin
            self._dispatcher.set_workers(0)

    def _push(self) -> None:
        # The same bytes at other offsets, which no checksum covers.
        self._lane.push(next(self._first).to_bytes(8, "big") + self._data[8:])

    def run(self) -> None:
        """Until the time is up."""
        self._push()
        self._push()
        unused: Any = None
        clients: Any = {0: None}
        routes, control = {0: self._route}, Control()
        instances = InstanceRegistry(self._dispatcher, clients, unused, self._monitor)
        departure = InstanceTeardown(ThreadLeakDetector(False), self._monitor)
        letters = DeadLetters(unused, {0: "billing"}, self._monitor)
        hooks = HookRunner(routes, instances, departure, letters, clients, {0: "billing"}, monitor=self._monitor)
        failures = Failures(routes, self._dispatcher, control, self._monitor)
        Worker(1, self._dispatcher, hooks, failures, control, lambda _: None).run()


def main() -> None:
    """All handlers, one after the other."""
    agent, seconds = sys.argv[1:]
    monitor = Monitor()
    # Five times as eager as by itself, so that each window sees some of its requests.
    tracer = None if agent == "none" else Tracer("orders", env="bench", agent=agent, interval=0.2)
    if tracer is not None:
        monitor.subscribe(tracer)
    for name, work in HANDLERS.items():
        feed = Feed(work, monitor, float(seconds))
        feed.run()
        statistics: dict[str, Any] = {} if tracer is None else dict(tracer.statistics())
        line = {
            "handler": name,
            "jobs": feed.jobs,
            "seconds": feed.took,
            "cpu_seconds": feed.cpu,
            "peak_rss": peak_rss(),
            "finished": statistics.get("finished", 0),
            "sent": statistics.get("sent", 0),
            "waiting": statistics.get("waiting", 0),
            "waiting_bytes": statistics.get("waiting_bytes", 0),
            "dropped": {reason: count for reason, count in statistics.get("dropped", {}).items() if count},
        }
        print(json.dumps(line), flush=True)
    os._exit(0)  # what was to be measured has been


if __name__ == "__main__":
    main()
