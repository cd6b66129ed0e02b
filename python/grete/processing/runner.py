"""One run of an App: it starts everything, waits for signals and notices, and stops everything."""

import functools
import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from grete import _core
from grete.client import Producer
from grete.config import Config
from grete.errors import GreteError
from grete.instrumentation.metrics import Family, families
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.processing import atexit
from grete.processing.engine import Engine
from grete.processing.lookout import Lookout
from grete.processing.membership import SETTING as INSTANCE
from grete.processing.production import Production
from grete.processing.shutdown import Shutdown
from grete.processing.signals import Signals, exit_at_the_end
from grete.processing.statistics import Statistics
from grete.processing.teller import Teller
from grete.routes import Route
from grete.swarm.context import NodeContext, release_signals

logger = logging.getLogger("grete")


class Runner:
    """`run` is one run in the thread that calls it: `start`, `watch`, then `end`, whatever happens. Once."""

    def __init__(
        self,
        name: str,
        groups: Mapping[str, Sequence[Route]],
        config: Config,
        *,
        embedded: bool,
        node: NodeContext | None = None,
        monitor: Monitor | None = None,
    ) -> None:
        """`embedded`: the process belongs to somebody else. No signal is handled, and no deadline ends it.

        `node`: the process is this node of a swarm, and reports to its supervisor.
        """
        self.error: BaseException | None = None
        self.pid = os.getpid()
        self._ended = threading.Event()
        self._name = name
        self._groups = groups
        self._config = config
        self._embedded = embedded
        self._node = node
        self._monitor = monitor
        self._tell = functools.partial(tell, monitor, logger)
        self._timeout: float = config["shutdown_timeout"]
        self._stopping = False
        self._dispatcher = _core.Dispatcher(events=() if monitor is None else monitor.of_jobs)
        self._health: _core.Health | None = self._new_health()
        self._stop = _core.Stop(self._dispatcher, self._timeout)
        self._production = Production(dict(config.kafka_pairs()), self._made, monitor)
        self._teller = Teller(monitor)
        self._statistics = Statistics(monitor, config["statistics_interval"], self._emitted, self._stop.wake)
        self._lookout = Lookout(self._stop, self._dispatcher, self._teller, self._statistics)
        self._shutdown = Shutdown(
            self._stop, self._dispatcher, self._production, self._lookout, exits=not embedded, monitor=monitor
        )
        self._engine: Engine | None = None
        self._clients: dict[str, _core.Client] = {}

    # From any thread

    def stop(self, timeout: float | None = None) -> None:
        """Begins a graceful stop."""
        self._stop.begin(timeout)

    def fail(self, error: BaseException) -> None:
        """Begins a graceful stop, and `run` will raise this (the first one of several)."""
        if self.error is None:
            self.error = error
        self._stop.begin()  # at once, not when `watch` gets to it: the failed job must find the dispatcher stopped

    def ending(self, thread: threading.Thread) -> None:
        """The thread does nothing any more but return."""
        self._shutdown.ending(thread)

    def quiet(self) -> None:
        """Hands out no more records."""
        self._dispatcher.quiet()
        self._log_quiet()

    def scale(self, workers: int) -> None:
        """Runs handlers in so many threads from now on."""
        engine = self._engine
        if engine is not None:
            engine.scale(workers)
            self._tell(logging.INFO, "app.scaled", "%d workers from now on", workers, fields={"workers": workers})

    def statistics(self) -> dict[str, Any]:
        """See `App.statistics`."""
        engine = self._engine
        if engine is None:
            raise GreteError(f'App "{self._name}" does not run')
        return {"app": self._name, "node": self._node_id} | engine.statistics()

    def metrics(self) -> str:
        """See `App.metrics`."""
        return self._measured().metrics()

    def families(self) -> tuple[Family, ...]:
        """See `App.families`."""
        return families(self._measured().families())

    def owns(self, thread: threading.Thread) -> bool:
        """Whether the end of the run has to wait for this thread."""
        return self._engine is not None and self._engine.owns(thread)

    @property
    def described(self) -> str:
        """For those who ask what is still open."""
        return f'App "{self._name}"'

    def close_at_exit(self) -> None:
        """The interpreter ends while this runs in another thread. The process goes with the time of the stop."""
        exit_at_the_end(self._stop)
        self.stop()
        self._ended.wait()

    # From the thread that runs it

    def run(self) -> None:
        """Returns after a clean stop, raises what ended it otherwise."""
        with Signals(self._stop):
            if self._node is not None:
                release_signals()
            try:
                self.start()
                self.watch()
            except BaseException as error:
                self.fail(error)
            self.end()
        if self.error is not None:
            raise self.error

    def start(self) -> None:
        """Starts clients and workers. Connects later, and says in the log how that goes."""
        atexit.close_before_exit(self)
        health = self._measured()
        if self._node is not None:
            # First: from now on the supervisor knows that we live, and what we wait for.
            health.report(self._node.pipe, self._node.report_interval, board=self._node.board)
        elif self._config["probes"] is not None:
            from grete.processing import probing

            # They answer while everything else starts. In a swarm the supervisor has them.
            probing.serve(health, self._config["probes"], self._monitor)
        routes = [route for members in self._groups.values() for route in members]
        by_route: dict[int, _core.Client] = {}
        groups: dict[int, str] = {}
        for group, members in self._groups.items():
            self._clients[group] = client = self._make_client(group, members)
            if not self._stop.add_client(client):
                client.close(0.0)
                return  # stopped before it has begun
            health.add_client(client)
            if members[0].assigned is None:
                client.subscribe([topic for route in members for topic in route.topics])
            else:  # then all of the group's routes are assigned
                client.assign([(topic, at, None) for route in members for topic, at in route.assigned or ()])
            by_route |= {route.id: client for route in members}
            groups |= {route.id: group for route in members}
        engine = Engine(routes, self._dispatcher, by_route, self._production, self._config, self, groups, self._monitor)
        self._engine = self._teller.engine = engine
        engine.start()
        self._statistics.start()
        topics = sorted({topic for route in routes for topic in route.topics})
        self._tell(
            logging.INFO,
            "app.running",
            'App "%s" runs: %s; group %s; %d workers',
            self._name,
            ", ".join(topics) or "no route is for this node, it only waits",
            ", ".join(self._groups) or "none",
            self._config["workers"],
            fields={"app": self._name, "node": self._node_id, "topics": topics, "groups": list(self._groups)},
        )

    def watch(self) -> None:
        """Until a stop has begun."""
        while self._stop.left() is None:
            for signum in self._lookout.wait():
                self._on_signal(signum)
            self._check()

    def end(self) -> None:
        """Jobs in flight end, then the clients commit and leave, all before one deadline."""
        try:
            error = self._shutdown.run(self._engine)
            self.error = self.error or error
            self._stop.over()
            self._statistics.last()
            self._tell(logging.INFO, "app.stopped", 'App "%s" has stopped', self._name)
        finally:
            # Whatever may have gone wrong: no worker waits for a job that nobody will give it.
            self._dispatcher.release_workers()
            self._stop.over()
            atexit.forget(self)
            health, self._health = self._health, None
            if health is not None:
                health.close()  # last of all: until here the probes tell how the stop goes
            self._lookout.close()
            self._statistics.close()
            # Workers and engine know us: without this, descriptors would wait for the garbage collector.
            self._engine = self._teller.engine = None
            self._clients = {}
            self._ended.set()

    @property
    def _node_id(self) -> int | None:
        return self._node.id if self._node is not None else None

    def _make_client(self, group: str, members: Sequence[Route]) -> _core.Client:
        overrides = {"group.id": group, "enable.auto.commit": "true", "queued_bytes": str(self._config["queued_bytes"])}
        if (instance := self._config.instance_id(self._node_id)) is not None:
            overrides[INSTANCE] = instance
        pairs = self._config.kafka_pairs(overrides)
        wanted = [route.core(self._config) for route in members]
        for route in members:
            for topic, decoder in (route.decoders() or {}).items():
                self._dispatcher.set_payload(route.id, topic, decoder)
        return _core.Client(pairs, self._dispatcher, wanted)

    def _emitted(self) -> dict[str, object] | None:
        """The fields of `statistics.emitted`; None before the engine was there."""
        return {"statistics": self.statistics(), "metrics": self.families()} if self._engine is not None else None

    def _new_health(self) -> _core.Health:
        limits = self._config.swarm
        return _core.Health(self._dispatcher, self._name, limits.gil_timeout, limits.unsteady_timeout)

    def _measured(self) -> _core.Health:
        health = self._health
        if health is None:
            raise GreteError(f'App "{self._name}" does not run')
        return health

    def _made(self, producer: Producer) -> bool:
        in_time = self._stop.add_producer(producer)
        if in_time:
            health = self._health
            if health is not None:
                health.add_producer(producer)
            self._lookout.add_producer(producer)
        return in_time

    def _on_signal(self, signum: int) -> None:
        name = signal.Signals(signum).name
        if signum == Signals.QUIET:
            self._log_quiet(f"{name}: ")
        elif signum in Signals.STOP:
            self._tell(logging.INFO, "app.stopping", "%s: stopping", name)

    def _log_quiet(self, why: str = "") -> None:
        text = "%squiet: what runs goes on, and no more records are handed out"
        self._tell(logging.INFO, "app.quiet", text, why)

    def _check(self) -> None:
        """A client that failed for good ends the run."""
        try:
            self._dispatcher.check()
        except GreteError as error:
            if self.error is None:
                self._tell(logging.ERROR, "app.failed", "%s", error, error=error, traceback=False)
            self.fail(error)
