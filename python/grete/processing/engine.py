"""Everything between the dispatcher and the handlers: the threads, the instances, and what they are doing just now."""

import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from grete import _core
from grete.config import Config
from grete.instrumentation.monitor import Monitor
from grete.processing.background import BackgroundThread, join
from grete.processing.dead_letters import DeadLetters
from grete.processing.departure import Departure, report_late
from grete.processing.failures import Control, Failures
from grete.processing.hooks import Hooks
from grete.processing.instances import Instances
from grete.processing.leaks import Leaks
from grete.processing.production import Production
from grete.processing.worker import Worker
from grete.routes import Route

if TYPE_CHECKING:
    from grete.processing.loop import LoopWorker
    from grete.processing.running import Running


class Engine:
    """Runs the handlers of an App's routes. Started and stopped by the one thread that runs the App."""

    def __init__(
        self,
        routes: Sequence[Route],
        dispatcher: _core.Dispatcher,
        clients: Mapping[int, _core.Client],
        production: Production,
        config: Config,
        control: Control,
        groups: Mapping[int, str],
        monitor: Monitor | None = None,
    ) -> None:
        """`clients` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = {route.id: route for route in routes}
        self._dispatcher = dispatcher
        self._config = config
        self._control = control
        self._monitor = monitor
        self._instances = Instances(dispatcher, clients, production.producer, monitor)
        self._leaks = Leaks(config["leak_report"], monitor)
        self._departure = Departure(self._leaks, monitor)
        self._failures = Failures(self._routes, dispatcher, control, monitor)
        self._new_hooks: Callable[..., Hooks] = partial(
            Hooks,
            self._routes,
            self._instances,
            self._departure,
            DeadLetters(production.producer, groups, monitor),
            clients,
            groups,
            monitor=monitor,
        )
        self._hooks = self._new_hooks()
        self._lock = threading.Lock()
        self._wanted = 0
        # Numbers of workers that were told to end; each leaves the set when it does.
        self._dismissed: set[int] = set()
        self._workers: dict[int, Worker] = {}
        self._loop: LoopWorker | None = None

    def start(self) -> None:
        """Starts the threads: workers, and the event loop's if a route is asynchronous."""
        self._leaks.start()
        if any(route.is_async for route in self._routes.values()):
            from grete.processing.loop import LoopWorker

            self._loop = LoopWorker(
                self._dispatcher, self._new_hooks, self._failures, self._control, self._config["loop"], self._monitor
            )
            self._loop.start()
        self.scale(self._config["workers"])

    def scale(self, workers: int) -> None:
        """Sets how many worker threads there are; those that are too many end after their job."""
        if workers < 1:
            raise ValueError(f"an App has one worker at least, not {workers}")
        with self._lock:
            self._wanted = workers
            self._dispatcher.set_workers(workers)
            self._dismissed.update(number for number in self._workers if number > workers)
            for number in range(1, workers + 1):
                if number not in self._workers:
                    self._start_worker(number)

    def _start_worker(self, number: int) -> None:
        # Workers do not keep the engine: a circle would keep descriptors until the garbage collector comes by.
        engine = weakref.ref(self)

        def over(worker: Worker) -> None:
            if (found := engine()) is not None:
                found._over(worker)  # noqa: SLF001

        worker = Worker(number, self._dispatcher, self._hooks, self._failures, self._control, over)
        self._workers[number] = worker
        worker.start()

    def _over(self, worker: Worker) -> None:
        """In the worker's thread: it takes no more jobs.

        One that is too many may get to this only after `scale` has asked for as many again: then nobody has started
        another one in its place, because it was still there.
        """
        with self._lock:
            if worker.number not in self._dismissed or self._departure.leaving:
                return  # everything stops
            self._dismissed.discard(worker.number)
            del self._workers[worker.number]
            if worker.number <= self._wanted:
                self._start_worker(worker.number)

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """The threads that run handlers, for a stop to await."""
        with self._lock:
            workers = tuple(self._workers.values())
        return workers if self._loop is None else (*workers, self._loop)

    def owns(self, thread: threading.Thread) -> bool:
        """Whether the end of the run waits for this thread, or for a job or an instance that it works for."""
        if isinstance(thread, BackgroundThread):
            return thread.owner.dispatcher is self._dispatcher
        return thread in self.threads or (self._loop is not None and self._loop.helped_by(thread))

    @property
    def cut(self) -> int:
        """Jobs of the event loop that were cancelled so far."""
        return 0 if self._loop is None else self._loop.cut

    def leave(self, deadline: float) -> None:
        """The App stops: what runs in the background has until then (of `time.monotonic()`)."""
        with self._lock:
            self._departure.leave(deadline)

    def close_background(self, deadline: float) -> None:
        """Ends what still runs in the background, until the deadline (of `time.monotonic()`), and reports the rest.

        That is work of instances whose last hook has not run: their thread hangs in another one.
        """
        threads = [thread for instance in self._instances.all() for thread in instance.host.background.stop()[0]]
        report_late(join(threads, deadline), self._monitor)
        self._leaks.close(deadline)

    def describe_running(self) -> list[str]:
        """What each busy thread and task does: "Orders.consume on orders[3] offsets 5..9 for 12.3 s in grete-worker-2",
        with its Python stack in the lines below.
        """
        return [f"{job.text}\n{job.stack}" if job.stack else job.text for job in self._running()]

    def stack_of(self, topic: str, partition: int, slot: int) -> str:
        """The Python stack of what runs for this partition, or this slot of it; "" when nothing does."""
        for job in self._running():
            if (job.topic, job.partition, job.slot) == (topic, partition, slot):
                return job.stack
        return ""

    def _running(self) -> "list[Running]":
        from grete.processing import running

        with self._lock:
            workers = tuple(self._workers.values())
        return list(running.describe(self._dispatcher.running(), self._routes, workers, self._loop))

    def statistics(self) -> dict[str, Any]:
        """What `App.statistics` tells."""
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
            "background": sum(len(instance.host.background) for instance in instances),
            "loop_jobs": 0 if self._loop is None else len(self._loop.tasks),
        }
