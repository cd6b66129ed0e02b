"""Everything between the dispatcher and the handlers: the threads, the instances, and what they are doing just now."""

import sys
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence

from grete import _core
from grete.config import Config
from grete.processing.hooks import Hooks
from grete.processing.production import Production
from grete.processing.worker import Control, Worker
from grete.routes import Route


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
    ) -> None:
        """`clients` and `groups` (the consumer groups' names) go by `Route.id`."""
        self._routes = {route.id: route for route in routes}
        self._dispatcher = dispatcher
        self._clients = clients
        self._config = config
        self._control = control
        self._groups = groups
        self._hooks = Hooks(routes, production.producer)
        self._workers: list[Worker] = []

    def start(self) -> None:
        """Starts the threads."""
        self.scale(self._config["workers"])

    def scale(self, workers: int) -> None:
        """Sets how many worker threads there are; those that are too many end after their job."""
        for number in range(len(self._workers) + 1, workers + 1):
            worker = Worker(number, self._dispatcher, self._hooks, self._control)
            self._workers.append(worker)
            worker.start()

    @property
    def threads(self) -> Sequence[threading.Thread]:
        """The threads that run handlers, for a stop to await."""
        return tuple(self._workers)

    def leave(self, deadline: float) -> None:
        """The App stops: what runs in the background has until then (of `time.monotonic()`)."""

    def close_background(self, deadline: float) -> None:
        """Ends what still runs in the background, until the deadline (of `time.monotonic()`)."""

    def describe_running(self) -> list[str]:
        """What each busy thread does, with its Python stack: "Orders.consume on orders[3] for 12.3 s in grete-..."."""
        return list(self._described())

    def _described(self) -> Iterator[str]:
        frames = sys._current_frames()  # noqa: SLF001
        threads = {thread.name: thread.ident for thread in self._workers}
        for job in self._dispatcher.running():
            route = self._routes.get(job["route"])
            name = route.name if route is not None else "?"
            place = f"{job['topic']}[{job['partition']}]"
            text = f"{name} on {place} for {job['seconds']:.1f} s in {job['worker']}"
            frame = frames.get(threads.get(job["worker"]) or 0)
            yield text if frame is None else f"{text}\n{''.join(traceback.format_stack(frame))}"
