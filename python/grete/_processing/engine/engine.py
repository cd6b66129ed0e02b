"""Everything between the dispatcher and the handlers: threads, instances, and reports of running jobs."""

import logging
import threading
import weakref
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grete import _native
from grete._config.layers import Config
from grete._plural import counted
from grete._processing.engine.job_parts import JobParts
from grete._processing.engine.run_control import JobThread, RunControl
from grete._processing.engine.worker import Worker
from grete._processing.instances.background import BackgroundThread, join_all
from grete._processing.instances.shared_producer import SharedProducer
from grete._processing.instances.teardown import log_unfinished
from grete._routing.routes import Route
from grete.errors import GreteError
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio

    from grete._processing.engine.blocked_loop import BlockedLoop
    from grete._processing.engine.host_loop import HostLoop
    from grete._processing.engine.loop_thread import LoopThread
    from grete._processing.engine.running_jobs import RunningJob

logger = logging.getLogger("grete")


class Engine:
    """Runs the handlers of an App's routes. Started and stopped by the thread of the App."""

    def __init__(
        self,
        routes: Sequence[Route],
        dispatcher: _native.Dispatcher,
        clients: Mapping[int, _native.Client],
        shared_producer: SharedProducer,
        config: Config,
        control: RunControl,
        groups: Mapping[int, str],
        monitor: Monitor | None = None,
        host_loop: "asyncio.AbstractEventLoop | None" = None,
        *,
        loop_title: str | None = None,
    ) -> None:
        """`clients` and `groups` (the consumer groups' names) go by `Route.id`.

        `host_loop`: the loop that runs async handlers; None: a loop that the engine starts. `loop_title`: title of
        `host_loop` in reports; None: it belongs to a host.
        """
        self._dispatcher = dispatcher
        self._config = config
        self._control = control
        self._monitor = monitor
        parts = JobParts(
            routes,
            dispatcher,
            clients,
            shared_producer.get,
            groups,
            control,
            monitor,
            leak_report=config["leak_report"],
        )
        self._routes, self._instances = parts.routes, parts.instances
        self._leak_detector, self._teardown = parts.leak_detector, parts.teardown
        self._failures = parts.failures
        self._providers = parts.providers
        self._new_hook_runner = parts.new_hook_runner
        self._hook_runner = self._new_hook_runner()
        self._lock = threading.Lock()
        self._target_workers = 0
        # Numbers of workers that were asked to end; each is removed when its worker has ended.
        self._retiring: set[int] = set()
        self._workers: dict[int, Worker] = {}
        self._host_loop = host_loop
        self._loop_title = loop_title
        self._loop: LoopThread | HostLoop | None = None

    def start(self) -> None:
        """Starts the worker threads, and the event loop if a route is asynchronous."""
        self._leak_detector.start()
        if any(route.is_async for route in self._routes.values()):
            self._loop = self._new_loop()
            self._loop.start()
        self.scale(self._config["workers"])

    def _new_loop(self) -> "LoopThread | HostLoop":
        common = self._dispatcher, self._new_hook_runner, self._failures, self._control
        if self._host_loop is not None:
            from grete._processing.engine.host_loop import NAME, HostLoop

            return HostLoop(self._host_loop, *common, monitor=self._monitor, title=self._loop_title or NAME)
        from grete._processing.engine.loop_thread import LoopThread

        return LoopThread(*common, self._config["loop"], self._monitor)

    def scale(self, workers: int) -> None:
        """Sets the number of worker threads; surplus workers end after their job.

        Raises GreteError when the system refuses a thread. Those that were started stay.
        """
        if workers < 1:
            raise ValueError(f"an App has one worker at least, not {workers}")
        with self._lock:
            self._set_target(workers)
            for number in range(1, workers + 1):
                if number in self._workers:
                    continue
                try:
                    self._start_worker(number)
                except RuntimeError as error:
                    self._set_target(max(number - 1, 1))
                    raise GreteError(
                        f"{number - 1} of {counted(workers, 'worker')} run, because the system refuses another thread "
                        f"({error}): raise its limit (ulimit -u, or pids.max of the container), or lower workers"
                    ) from error

    def _set_target(self, workers: int) -> None:
        self._target_workers = workers
        self._dispatcher.set_workers(workers)
        self._retiring.update(number for number in self._workers if number > workers)

    def _start_worker(self, number: int) -> None:
        # Workers must not refer to the engine: a cycle would keep descriptors until the next garbage collection.
        engine = weakref.ref(self)

        def on_exit(worker: Worker) -> None:
            if (found := engine()) is not None:
                found._on_worker_exit(worker)  # noqa: SLF001

        worker = Worker(number, self._dispatcher, self._hook_runner, self._failures, self._control, on_exit)
        worker.start()  # before it is counted: the system may be out of threads
        self._workers[number] = worker

    def _on_worker_exit(self, worker: Worker) -> None:
        """Handles a worker that takes no more jobs. Called in its thread.

        A surplus worker may get here only after `scale` has asked for as many workers again. `scale` has not replaced
        it then, because the worker was still registered; so it is replaced here.
        """
        with self._lock:
            if worker.number not in self._retiring or self._teardown.is_shutting_down:
                return  # all workers end
            self._retiring.discard(worker.number)
            del self._workers[worker.number]
            if worker.number <= self._target_workers:
                try:
                    self._start_worker(worker.number)
                except RuntimeError as error:
                    self._set_target(max(worker.number - 1, 1))
                    logger.warning(
                        "worker %d ended and cannot be started again, because the system refuses a thread (%s): the "
                        "App goes on with fewer workers, until it is scaled",
                        worker.number,
                        error,
                    )

    @property
    def threads(self) -> Sequence[JobThread]:
        """Threads that run handlers, and a host's event loop that does, for a stop to wait for."""
        with self._lock:
            workers = tuple(self._workers.values())
        return workers if self._loop is None else (*workers, self._loop)

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the end of the run waits for this thread, the caller's, or for the job it works for."""
        if isinstance(thread, BackgroundThread):
            return thread.owner.dispatcher is self._dispatcher
        return thread in self.threads or (self._loop is not None and self._loop.owns(thread))

    @property
    def cancelled_jobs(self) -> int:
        """Number of event loop jobs that were cancelled so far."""
        return 0 if self._loop is None else self._loop.runner.cancelled_jobs

    def check_host_loop(self) -> None:
        """Ends the run if the host's event loop was closed while it still ran handlers."""
        if self._loop is not None and self._loop.is_lost:
            self._loop.return_jobs()

    def begin_shutdown(self, deadline: float) -> None:
        """Begins the stop of the App: background work must end by the deadline (of `time.monotonic()`)."""
        with self._lock:
            self._teardown.begin_shutdown(deadline)

    def stop_background(self, deadline: float) -> None:
        """Ends remaining background work by the deadline (of `time.monotonic()`), and reports what does not end.

        That is work of instances whose last hook has not run, because their thread hangs in another hook.
        """
        threads = [thread for instance in self._instances.all() for thread in instance.context.background.stop()[0]]
        log_unfinished(join_all(threads, deadline), self._monitor)
        self._leak_detector.close(deadline)
        self._providers.close()

    def describe_running(self) -> list[str]:
        """Describes each busy thread and task: "Orders.consume on orders[3] offsets 5..9 for 12.3 s in grete-worker-2",
        with its Python stack in the lines below.
        """
        return [f"{job.text}\n{job.stack}" if job.stack else job.text for job in self.running_jobs()]

    def stack_of(self, topic: str, partition: int, slot: int) -> str:
        """Returns the Python stack of the job for this partition and slot; "" if no job runs."""
        for job in self.running_jobs():
            if (job.topic, job.partition, job.slot) == (topic, partition, slot):
                return job.stack
        return ""

    def running_jobs(self) -> "list[RunningJob]":
        """Returns the running jobs with their Python stacks."""
        from grete._processing.engine import running_jobs

        with self._lock:
            workers = tuple(self._workers.values())
        return list(running_jobs.describe_jobs(self._dispatcher.running(), self._routes, workers, self._loop))

    def blocked_loop(self, seconds: float) -> "BlockedLoop | None":
        """Describes what has blocked the event loop for `seconds`; None: no event loop."""
        from grete._processing.engine import blocked_loop

        if self._loop is None:
            return None
        return blocked_loop.describe(self._dispatcher, self._routes, self._loop, seconds)

    def done_ahead(self) -> "list[_native._Lane]":
        """Returns the lanes with processed records that a restart processes again: no commit covers them, and their
        route has no `offset_map`.
        """
        return [
            lane
            for lane in self._dispatcher.lanes()
            if lane["done_ahead"] and not self._routes[lane["route"]].offset_map
        ]

    def statistics(self) -> dict[str, Any]:
        """Returns the engine's part of `App.statistics`."""
        lanes = self._dispatcher.lanes()
        instances = self._instances.all()
        with self._lock:
            workers = tuple(self._workers.values())
        return {
            "lanes": lanes,
            "stalled": [
                f"{lane['handler']} on {lane['topic']}[{lane['partition']}] for {lane['running_for']:.1f} s"
                for lane in lanes
                if lane["stalled"] and lane["running_for"] is not None
            ],
            "counts": self._dispatcher.counts(),
            "workers": len(workers),
            "busy": sum(worker.job is not None for worker in workers),
            "instances": len(instances),
            "background": sum(len(instance.context.background) for instance in instances),
            "loop_jobs": 0 if self._loop is None else self._loop.runner.started_jobs,
            "loop_wait": None if self._loop is None else self._dispatcher.loop_wait() or 0.0,
        }
