"""One run of an App: starts all parts, waits for signals and log events, and stops all parts."""

import functools
import logging
import os
import signal
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from grete import _native
from grete._config.latency import fetch_settings, smallest
from grete._config.layers import Config
from grete._config.static_membership import SETTING as INSTANCE
from grete._lifecycle.hooks import Lifecycle
from grete._plural import counted
from grete._process import exit_hooks, forks
from grete._process.node import NodeContext, unblock_signals
from grete._processing.dedup_history import DedupHistory
from grete._processing.engine.engine import Engine
from grete._processing.engine.run_control import JobThread
from grete._processing.events.log_events import LogEventHandler
from grete._processing.events.statistics_timer import StatisticsTimer
from grete._processing.instances.shared_producer import SharedProducer
from grete._processing.main_loop import MainLoop
from grete._processing.missing_topics import MissingTopics
from grete._processing.reports.web_reports import new_web_reports
from grete._processing.shutdown import ShutdownSequence
from grete._processing.signals import Signals, exit_on_deadline
from grete._processing.transactional_id import FixedId, TransactionalId, claim_transactional_id
from grete._routing import pinning
from grete._routing.routes import Route
from grete.client import Producer
from grete.errors import GreteError, NotAssignedError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.metrics import MetricFamily, from_native
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio
    from datetime import datetime

    from grete._processing.engine.running_jobs import RunningJob
    from grete._processing.hook_loop import LoopCall
    from grete._processing.lifecycle_run import LifecycleRun

logger = logging.getLogger("grete")

TRANSACTIONAL_ID = "transactional.id"

# `transaction.timeout.ms` of an App: a transaction is open only while it is being committed.
_TRANSACTION_TIMEOUT_MS = "10000"


class Runner:
    """One run, once. `run` does all in the calling thread: `start`, `run_until_stop`, then `end` in any case."""

    def __init__(
        self,
        name: str,
        groups: Mapping[str, Sequence[Route]],
        config: Config,
        *,
        embedded: bool,
        node: NodeContext | None = None,
        monitor: Monitor | None = None,
        host: "asyncio.AbstractEventLoop | None" = None,
        hooks: Lifecycle | None = None,
        app: object = None,
    ) -> None:
        """`embedded`: the process belongs to a host. No signal is handled, and no deadline ends the process.

        `node`: the process is this node of a swarm, and reports to its supervisor.

        `host`: the event loop that called the start. The setting `loop` decides whether it runs async handlers.

        `hooks`: hooks of the start and the stop; `app`: what `lifespan=` gets.
        """
        self.error: BaseException | None = None
        self.pid = os.getpid()
        self._ended = threading.Event()
        self._name = name
        self._groups = groups
        self._config = config
        self._embedded = embedded
        self._host_loop = self._resolve_host_loop(host, hooks)
        self._node = node
        self._monitor = monitor
        self._emit = functools.partial(log_and_emit, monitor, logger)
        self._timeout: float = config["shutdown_timeout"]
        self._stopping = False
        self._dispatcher = _native.Dispatcher(events=() if monitor is None else monitor.job_events)
        self._health: _native.Health | None = self._new_health()
        self._stop = _native.Shutdown(self._dispatcher, self._timeout)
        # Its records are in no transaction: those of exactly-once jobs have a producer of their group's client.
        plain = {name: value for name, value in config.kafka_pairs() if name != TRANSACTIONAL_ID}
        self._shared_producer = SharedProducer(plain, self._on_producer_created, monitor)
        self._transactional_ids: list[TransactionalId | FixedId] = []
        self._log_event_handler = LogEventHandler(monitor)
        self._statistics_timer = StatisticsTimer(
            monitor, config["statistics_interval"], self._statistics_fields, self._stop.wake
        )
        self._web_reports = new_web_reports(name, self._node_id, config, groups, monitor)
        self._main_loop = MainLoop(
            self._stop, self._dispatcher, self._log_event_handler, self._statistics_timer, self._web_reports
        )
        self._shutdown = ShutdownSequence(
            self._stop, self._dispatcher, self._shared_producer, self._main_loop, may_exit=not embedded, monitor=monitor
        )
        self._lifecycle = self._new_lifecycle(hooks, app) if hooks else None
        self._engine: Engine | None = None
        self._missing_topics: MissingTopics | None = None
        self._dedup_history: DedupHistory | None = None
        self._clients: dict[str, _native.Client] = {}

    # Thread-safe methods

    def stop(self, timeout: float | None = None) -> None:
        """Begins a graceful stop."""
        self._stop.begin(timeout)

    def fail(self, error: BaseException) -> None:
        """Begins a graceful stop. `run` will raise the first error that was passed here."""
        if self.error is None:
            self.error = error
        self._stop.begin()  # at once, not in `run_until_stop`: the failed job must find the dispatcher stopped

    @property
    def stopping(self) -> bool:
        """Whether a stop has begun."""
        return self._stop.remaining() is not None

    def on_exit(self, thread: JobThread) -> None:
        """Handles a job thread that is about to return."""
        self._shutdown.on_exit(thread)

    def producer(self) -> Producer:
        """Returns the producer of the process. Raises ClosedError when the run has ended."""
        return self._shared_producer.get()

    def quiet(self) -> None:
        """Hands out no more records."""
        self._dispatcher.quiet()
        self._log_quiet()

    def scale(self, workers: int) -> None:
        """Sets the number of worker threads."""
        engine = self._engine
        if engine is None:
            raise GreteError(
                f'App "{self._name}" has no workers yet, or no more: set workers= for its start, or scale it later'
            )
        engine.scale(workers)
        for group, members in self._groups.items():
            if members[0].queue and group in self._clients:
                self._clients[group].set_concurrency(_queue_concurrency(members, workers))
        self._emit(
            logging.INFO, "app.scaled", "%s from now on", counted(workers, "worker"), fields={"workers": workers}
        )

    def statistics(self) -> dict[str, Any]:
        """See `App.statistics`."""
        engine = self._engine
        if engine is None:
            raise GreteError(f'App "{self._name}" does not run')
        missing = self._missing_topics.missing if self._missing_topics is not None else []
        found: dict[str, Any] = {"missing_topics": missing}
        by_group = dict(self._clients)
        clients = [client.statistics() for client in by_group.values()]
        found["transactions"] = [
            {"group": group} | state
            for group, client in by_group.items()
            if (state := client.transactions()) is not None
        ]
        counts = {group: client.queue() for group, client in by_group.items()}
        found["queues"] = [{"group": group} | queue for group, queue in counts.items() if queue is not None]
        for name in ("login_failure", "authorization_failure"):
            found[f"{name}s"] = [client[name] for client in clients if client[name]]
        return {"app": self._name, "node": self._node_id} | engine.statistics() | found

    def seek(self, topic: str, partition: int, offset: "int | str | datetime", group: str | None) -> None:
        """See `App.seek`."""
        clients = dict(self._clients)
        if group is not None and group not in clients:
            raise GreteError(f'the App reads in no group "{group}", only in {", ".join(clients) or "none"}')
        here = [name for name in clients if group in (None, name) and (topic, partition) in clients[name].assignment()]
        if len(here) > 1:
            raise GreteError(f"{topic}[{partition}] is read in the groups {', '.join(here)}: name one with group=")
        if not here:
            text = f"{topic}[{partition}] is not assigned to this App's process: seek where it is read"
            raise NotAssignedError(text, topic=topic, partition=partition)
        clients[here[0]].seek(topic, partition, offset)  # type: ignore[arg-type]

    def metrics(self) -> str:
        """See `App.metrics`."""
        return self._open_health().metrics()

    def families(self) -> tuple[MetricFamily, ...]:
        """See `App.families`."""
        return from_native(self._open_health().families())

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the end of the run has to wait for this thread, which must be the calling one."""
        engine, lifecycle = self._engine, self._lifecycle
        if lifecycle is not None and lifecycle.owns(thread):
            return True
        if engine is not None:
            return engine.owns(thread)
        return self._host_loop is not None and _is_current_loop(self._host_loop)

    @property
    def clients(self) -> Mapping[str, _native.Client]:
        """Clients by group; empty before the start and after the end."""
        return dict(self._clients)

    def running_jobs(self) -> "list[_native._RunningJob]":
        """Returns the jobs that run, or that wait for the delivery of what they have produced."""
        return self._dispatcher.running()

    def release_workers(self) -> None:
        """Ends the workers without hooks, after their jobs."""
        self._dispatcher.release_workers()

    @property
    def described(self) -> str:
        """Name of the run in reports of open objects."""
        return f'App "{self._name}"'

    def close_at_exit(self) -> None:
        """Stops the run when the interpreter ends. The process exits at the deadline of the stop."""
        exit_on_deadline(self._stop)
        self.stop()
        self._ended.wait()

    # Methods for the thread of the run

    def run(self) -> None:
        """Runs the App. Returns after a clean stop, else raises the error that ended the run."""
        with Signals(self._stop):
            if self._node is not None:
                unblock_signals()
            try:
                self.start()
                self.run_until_stop()
            except BaseException as error:
                self.fail(error)
            self.end()
        if self.error is not None:
            raise self.error

    def start(self) -> None:
        """Starts clients and workers. Connections are made later, and logged."""
        exit_hooks.close_before_exit(self)
        if self._embedded:
            self._shutdown.prepare(hooks=self._lifecycle is not None)
        health = self._open_health()
        for parental in (self._main_loop, health):
            forks.register(parental)
        if self._node is not None:
            # First of all: from now on the supervisor knows that the node lives, and what it waits for.
            health.report(self._node.report_pipe, self._node.report_interval, shared_text=self._node.metrics_segment)
        elif self._config["probes"] is not None:
            from grete._processing import probes

            # Probes answer while everything else starts. In a swarm, the supervisor serves them.
            probes.serve_probes(health, self._config["probes"], self._monitor)
        if self._web_reports is not None:
            self._web_reports.start(health, self._running_with_stacks, self)
        if self._lifecycle is not None:
            # Before the groups are joined: a hook that takes minutes delays no other member.
            self._lifecycle.start(lambda: self.stopping, self._await_hook, self._stop.wake)
            if self.stopping:
                return
        routes = [route for members in self._groups.values() for route in members]
        self._missing_topics = self._log_event_handler.missing_topics = MissingTopics(
            routes,
            health.set_missing,
            settings=dict(self._config.kafka_pairs()),
            create=self._config["dead_letter_create"],
            monitor=self._monitor,
        )
        if any(route.dedup is not None for route in routes):
            # Before the clients: a partition that has a committed offset waits for the thread.
            self._dedup_history = DedupHistory(self._dispatcher, self._history_settings(routes), self._monitor)
            self._dedup_history.start()
        by_route: dict[int, _native.Client] = {}
        groups: dict[int, str] = {}
        for group, members in self._groups.items():
            self._clients[group] = client = self._make_client(group, members)
            if not self._stop.add_client(client):
                client.close(0.0)
                return  # a stop came before the start
            health.add_client(client)
            if members[0].assigned is None:
                client.subscribe([topic for route in members for topic in route.topics])
            else:  # then all of the group's routes are assigned
                client.assign([(topic, at, None) for route in members for topic, at in route.assigned or ()])
            by_route |= {route.id: client for route in members}
            groups |= {route.id: group for route in members}
        engine = Engine(
            routes,
            self._dispatcher,
            by_route,
            self._shared_producer,
            self._config,
            self,
            groups,
            self._monitor,
            self._host_loop if self._lifecycle is None else self._lifecycle.loop,
            loop_title=self._lifecycle.loop_title if self._lifecycle is not None else None,
        )
        self._engine = self._log_event_handler.engine = engine
        engine.start()
        self._statistics_timer.start()
        self._missing_topics.start_check([route for route in routes if self._is_first_node_with(route)], by_route)
        topics = sorted({topic for route in routes for topic in route.topics})
        self._main_loop.drain_log_events()  # what has happened by now is logged before this line
        self._emit(
            logging.INFO,
            "app.running",
            'App "%s" runs: %s; group %s; %s',
            self._name,
            ", ".join(topics) or "no route is pinned to this node; it only waits",
            ", ".join(self._groups) or "none",
            counted(self._config["workers"], "worker"),
            fields={"app": self._name, "node": self._node_id, "topics": topics, "groups": list(self._groups)},
        )

    def run_until_stop(self) -> None:
        """Handles signals and log events until a stop has begun."""
        # The wake-up of a failure may be gone: `start` drains the log events, perhaps with those of the failure.
        self._check_for_failure()
        while self._stop.remaining() is None:
            for signum in self._main_loop.wait():
                self._on_signal(signum)
            self._check_for_failure()

    def end(self) -> None:
        """Ends the run: jobs in flight end, then clients commit and leave, all before one deadline."""
        if self._missing_topics is not None:
            self._missing_topics.close()
        if self._dedup_history is not None:
            self._dedup_history.close()
        # Now, in case a handler keeps the GIL. Once more before the groups are left, because the flag may be set
        # meanwhile.
        self._release_memberships()
        try:
            error = self._shutdown.run(self._engine, self._release_memberships, self._lifecycle)
            self.error = self.error or error
            self._stop.finish()
            self._statistics_timer.emit_final()
            self._emit(logging.INFO, "app.stopped", 'App "%s" has stopped', self._name)
        finally:
            # After any error: no worker waits for a job that never comes.
            self._dispatcher.release_workers()
            self._shutdown.release()
            self._stop.finish()
            exit_hooks.forget(self)
            health, self._health = self._health, None
            if health is not None:
                health.close()  # last of all: until here the probes report the stop
                forks.unregister(health)
            if self._web_reports is not None:
                self._web_reports.close()  # after the last report, which the health thread has written
            self._main_loop.close()
            forks.unregister(self._main_loop)
            self._statistics_timer.close()
            for claim in self._transactional_ids:
                claim.release()
            # Reference cycles with workers and engine would keep descriptors until the next garbage collection.
            self._engine = self._log_event_handler.engine = self._log_event_handler.missing_topics = None
            self._clients = {}
            self._lifecycle = None
            self._ended.set()

    @property
    def _node_id(self) -> int | None:
        return self._node.id if self._node is not None else None

    def _make_client(self, group: str, members: Sequence[Route]) -> _native.Client:
        overrides = {"group.id": group, "enable.auto.commit": "true", "queued_bytes": str(self._config["queued_bytes"])}
        own_instance = instance = self._config.instance_id(self._node_id)
        if instance is None and self._node is not None:
            instance = self._node.group_instance_id
        if instance is not None:
            overrides[INSTANCE] = instance
        budget = smallest(route.latency_budget(self._config) for route in members)
        overrides |= fetch_settings(budget, dict(self._config.kafka_pairs()))
        transactional = None
        if members[0].is_exactly_once(self._config):
            overrides["isolation.level"] = "read_committed"
            transactional = self._transactional(group, own_instance)
        pairs = self._config.kafka_pairs(overrides)
        route_configs = [route.to_native(self._config) for route in members]
        for route in members:
            for topic, decoder in (route.decoders() or {}).items():
                self._dispatcher.set_decoder(route.id, topic, decoder)
        return _native.Client(
            pairs,
            self._dispatcher,
            route_configs,
            stop_on_failed_partition=self._config["on_failed_partition"] == "stop",
            transactional=transactional,
            member_ids=self._node.member_ids if self._node is not None and not members[0].queue else None,
            queue=_queue_concurrency(members, self._config["workers"]) if members[0].queue else None,
        )

    def _transactional(self, group: str, instance: str | None) -> tuple[list[tuple[str, str]], float]:
        """Returns the settings of the producer of a group's transactions, and their interval in seconds."""
        kafka = self._config.kafka
        given = kafka.get(TRANSACTIONAL_ID)
        explicit = given.value if given is not None and given.value else None
        claim = claim_transactional_id(group, explicit, instance, self._node_id)
        self._transactional_ids.append(claim)
        overrides = {TRANSACTIONAL_ID: claim.text}
        if "transaction.timeout.ms" not in kafka:
            overrides["transaction.timeout.ms"] = _TRANSACTION_TIMEOUT_MS
        return self._config.kafka_pairs(overrides), self._config["transaction_interval"]

    def _history_settings(self, routes: Sequence[Route]) -> dict[str, str]:
        """Returns Kafka's settings for reading without a group what the routes read."""
        settings = dict(self._config.kafka_pairs())
        for name in (TRANSACTIONAL_ID, "group.id", INSTANCE):
            settings.pop(name, None)
        if any(route.is_exactly_once(self._config) for route in routes):
            settings["isolation.level"] = "read_committed"
        return settings

    def _is_first_node_with(self, route: Route) -> bool:
        """Returns whether no node with a lower number runs the route: that node checks the route's topics."""
        nodes = {node for topic in route.topics for node in pinning.nodes_of(route, topic, self._config)}
        return self._node is None or self._node.id == min(nodes)

    def _release_memberships(self) -> None:
        """Makes a node without a successor leave its groups, if the swarm has made it a static member."""
        node = self._node
        if (
            node is not None
            and node.group_instance_id is not None
            and node.leave_group_flag is not None
            and node.leave_group_flag.is_set
        ):
            for client in list(self._clients.values()):
                client.leave_group_on_close()

    def _statistics_fields(self) -> dict[str, object] | None:
        """Returns the fields of `statistics.emitted`; None before the engine exists."""
        return {"statistics": self.statistics(), "metrics": self.families()} if self._engine is not None else None

    def _running_with_stacks(self) -> "list[RunningJob]":
        engine = self._engine
        return [] if engine is None else engine.running_jobs()

    def _new_health(self) -> _native.Health:
        limits = self._config.swarm
        return _native.Health(
            self._dispatcher,
            self._name,
            limits.gil_timeout,
            limits.not_ready_timeout,
            self._config["failed_partition_probes"],
        )

    def _open_health(self) -> _native.Health:
        health = self._health
        if health is None:
            raise GreteError(f'App "{self._name}" does not run')
        return health

    def _on_producer_created(self, producer: Producer) -> bool:
        in_time = self._stop.add_producer(producer)
        if in_time:
            health = self._health
            if health is not None:
                health.add_producer(producer)
            self._main_loop.add_producer(producer)
            self._dispatcher.set_producer(producer)
        return in_time

    def _on_signal(self, signum: int) -> None:
        name = signal.Signals(signum).name
        if signum == Signals.QUIET:
            self._log_quiet(f"{name}: ")
        elif signum in Signals.STOP:
            self._emit(logging.INFO, "app.stopping", "%s: stopping", name)

    def _log_quiet(self, why: str = "") -> None:
        text = "%squiet: running handlers go on, and no more records are handed out"
        self._emit(logging.INFO, "app.quiet", text, why)

    def _await_hook(self, call: "LoopCall") -> None:
        """Waits for a hook of the start. A stop cancels the hook, and waits for its end as for a handler's."""
        cancelled = False
        while not call.ended.is_set():
            left = self._stop.remaining()
            if left is not None and not cancelled:
                call.cancel()
                cancelled = True
            if left is not None and left[0] <= 0:
                return
            for signum in self._main_loop.wait(None if left is None else left[0]):
                self._on_signal(signum)

    def _new_lifecycle(self, hooks: Lifecycle, app: object) -> "LifecycleRun":
        from grete._processing.lifecycle_run import LifecycleRun

        return LifecycleRun(
            hooks, app, self.fail, loop_kind=self._config["loop"], host_loop=self._host_loop, monitor=self._monitor
        )

    def _resolve_host_loop(
        self, given: "asyncio.AbstractEventLoop | None", hooks: Lifecycle | None
    ) -> "asyncio.AbstractEventLoop | None":
        kind = self._config["loop"]
        is_async = any(route.is_async for routes in self._groups.values() for route in routes)
        if (given is None and kind != "host") or not (is_async or (hooks is not None and hooks.is_async)):
            return None
        from grete._processing.engine import host_loop

        return host_loop.resolve_host_loop(kind, given)

    def _check_for_failure(self) -> None:
        """Ends the run after a permanent failure of a client, and after the host has closed its loop."""
        if self._engine is not None:
            self._engine.check_host_loop()
        try:
            self._dispatcher.check()
        except GreteError as error:
            if self.error is None:
                self._emit(logging.ERROR, "app.failed", "%s", error, error=error, traceback=False)
            self.fail(error)


def _is_current_loop(loop: "asyncio.AbstractEventLoop") -> bool:
    from grete._processing.engine.host_loop import is_current_loop

    return is_current_loop(loop)


def _queue_concurrency(members: Sequence[Route], workers: int) -> int:
    """Returns how many records the routes of a share group handle at once: worker threads are common to all of them."""
    threads = max((route.queue_concurrency(workers) for route in members if not route.is_async), default=0)
    return threads + sum(route.queue_concurrency(workers) for route in members if route.is_async)
