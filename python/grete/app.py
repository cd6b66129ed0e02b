"""App: settings and routes, and the block in which an App runs."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, TypeVar, Unpack, cast, overload

from grete._config import layers
from grete._config.registry import ROUTE_SETTINGS, SETTINGS
from grete._config.signature import show_settings
from grete._lifecycle.hooks import Lifecycle, Lifespan, State
from grete._lifecycle.preload import Preloads
from grete._process import callsite
from grete._processing.running_app import RunningApp
from grete._routing import route_checks, routes
from grete._routing.routes import Route
from grete._routing.setting_types import AppSettings, RouteSettings
from grete.errors import ConfigError, GreteError, NotSupportedError
from grete.instrumentation._logging.default_handler import add_default_handler
from grete.instrumentation.monitor import Monitor
from grete.producer import AppProducer, Producer
from grete.topic import Topic

if TYPE_CHECKING:
    import asyncio

    from grete._process.node import NodeContext
    from grete._processing.background_run import BackgroundRun
    from grete._processing.runner import Runner
    from grete.client import Producer as ClientProducer
    from grete.instrumentation.metrics import MetricFamily

K = TypeVar("K")
V = TypeVar("V")
TopicConfig = Mapping[str, str | int | float | bool]
H = TypeVar("H", bound=Callable[..., object])
P = TypeVar("P", bound=Callable[[], object])
L = TypeVar("L", bound=Callable[[], Any])


class App:
    """Settings and routes. Declaring one opens no socket and starts no thread; `run` does.

    ```
    app = grete.App("billing", kafka={"bootstrap.servers": "localhost:9092"}, workers=5)

    @app.consumer("orders", max_messages=500)
    class Orders(grete.Consumer):
        def consume(self):
            for message in self.messages:
                charge(message.value)
    ```

    Settings:
        workers (int, default 5): threads that run handlers
        group (str, default not set): consumer group of routes that name none; else kafka's group.id, else the App's
            name
        max_messages (int, default 500): messages that one call of consume gets at most
        max_bytes (str | int, bytes, default "16MiB"): bytes of messages that one call of consume gets at most (one
            message always)
        max_wait (str | float, seconds, default "0s"): how long to wait for max_messages before a call with fewer
        latency (str | float, seconds, default "0s"): how long records may wait at the broker to be fetched together;
            the smallest of a group's routes counts
        stall_after (str | float, seconds, default "30s"): how long a call may take before the log names it with its
            stack, and how long a partition may stand still while records wait; or "none"
        handler_timeout (str | float, seconds, default "none"): how long a call may take before it counts as hung; or
            "none"
        shutdown_timeout (str | float, seconds, default "30s"): how long a stop may take before it is forced
        queued_bytes (str | int, bytes, default "64MiB"): memory for records that wait for a handler, per consumer group
        statistics_interval (str | float, seconds, default "10s"): how often `statistics.emitted` is emitted while it
            has listeners; or "none"
        log_level (str, default "info"): lowest level of the log lines of `grete run`, and of a program that has set up
            no logging: debug, info, warning, error, critical
        leak_report (bool, default True): whether the log names threads that outlive the consumer that started them
        dead_letter_create (bool, default False): whether dead letter topics that do not exist are created, with the
            partitions of their source
        loop (Literal['auto', 'own', 'host', 'asyncio', 'uvloop'], default "auto"): the event loop of async handlers:
            "host" (that of the code that starts the App), "own" (uvloop if installed), "asyncio", "uvloop"; or "auto":
            "host" in `grete.asgi.lifespan` and `async with app.running()`, else "own"
        probes (str | int, default "none"): [HOST:]PORT of /livez, /readyz and /metrics (*:PORT: all interfaces); or
            "none"
        web_reports (str | float, seconds, default "none"): how often the process reports to the topics of `grete web`,
            like "3s"; or "none"
        web_commands (bool, default False): whether the process obeys commands of `grete web` that are not signed
        web_commands_secret (str, default not set): secret of 16 characters or more: the process obeys commands of
            `grete web` that are signed with it, and no others
        on_failed_partition (Literal['wait', 'stop'], default "wait"): what a partition that cannot be read does: "wait"
            (the others go on) or "stop" (the App ends with an error)
        failed_partition_probes (Literal['readyz', 'livez', 'none'], default "readyz"): which probes fail while a
            partition cannot be read: "readyz", "livez" (both) or "none"
        exactly_once (bool, default False): whether what a job produces, and its offsets, become visible together, in a
            transaction: see docs/transactions.md
        transaction_interval (str | float, seconds, default "100ms"): with exactly_once: time from the first result that
            is not committed to its transaction
        swarm (SwarmTable, default not set): settings of `grete swarm`, a table: see SwarmTable and docs/swarm.md
        nodes (Mapping[int, Sequence[str]], default not set): which nodes of a swarm process which topics; other topics:
            any node
    """

    def __init__(
        self,
        name: str,
        *,
        kafka: Mapping[str, Any] | None = None,
        lifespan: Lifespan | None = None,
        **settings: Unpack[AppSettings],
    ) -> None:
        """`kafka`: Kafka's settings by their dotted names.

        `lifespan`: function that gets the App and returns an asynchronous context manager, which is entered before the
        first hook of `on_startup` and left after the last one of `on_shutdown`. A mapping that it yields becomes
        attributes of `state`.
        """
        self._lifecycle = Lifecycle()
        with _prefix_errors(callsite.caller_location()):
            if not isinstance(name, str) or not name.strip():
                raise ConfigError(f'an App has a name, like App("billing"), not {name!r}', setting="name")
            if kafka is not None and not isinstance(kafka, Mapping):
                raise ConfigError(
                    f'kafka is a mapping, like {{"bootstrap.servers": ...}}, not {kafka!r}', setting="kafka"
                )
            if lifespan is not None:
                self._lifecycle.add("lifespan", lifespan, callsite.caller_location())
            self._code_layer = layers.parse_layer(dict(settings), kafka or {}, "code")
            layers.check_code_kafka(self._code_layer)
        self.name = name
        self.routes: list[Route] = []
        self.topics: dict[str, Topic[Any, Any]] = {}
        """Topics that `topic` has declared, by name."""
        self.preloads = Preloads()
        self.monitor = Monitor()
        """Events of this App: see `grete.instrumentation.Monitor`."""
        self._command_line = layers.Layer()
        self._node: NodeContext | None = None
        self._runner: Runner | None = None
        self._background_run: BackgroundRun | None = None
        # Producer of a test without a broker, while the test runs a handler.
        self._offline_producer: Callable[[], ClientProducer] | None = None
        self._producer = cast("Producer", AppProducer(self._find_producer))

    @overload
    def topic(
        self,
        name: str,
        *,
        key: type[K],
        value: type[V],
        partitions: int | None = None,
        replication: int | None = None,
        config: TopicConfig | None = None,
    ) -> Topic[K, V]: ...
    @overload
    def topic(
        self,
        name: str,
        *,
        value: type[V],
        partitions: int | None = None,
        replication: int | None = None,
        config: TopicConfig | None = None,
    ) -> Topic[bytes, V]: ...
    @overload
    def topic(
        self,
        name: str,
        *,
        key: object = None,
        value: object = None,
        partitions: int | None = None,
        replication: int | None = None,
        config: TopicConfig | None = None,
    ) -> Topic[Any, Any]: ...
    def topic(
        self,
        name: str,
        *,
        key: Any = None,
        value: Any = None,
        partitions: int | None = None,
        replication: int | None = None,
        config: TopicConfig | None = None,
    ) -> Topic[Any, Any]:
        """Declares a topic: its types, and how it is created. Opens nothing, and creates nothing.

        ```
        orders = app.topic("orders", key=str, value=Order, partitions=8)

        @app.consumer(orders, publish=invoices)
        def charge(order: Order) -> Invoice: ...

        app.producer.produce(orders, Order(...), key="ann")
        ```

        `key`, `value`: a type, "json", or a format like `grete.payloads.Avro(...)`; see docs/handlers.md.
        `partitions`, `replication`: their number; None: the broker's default. `config`: Kafka's settings of the topic.

        Raises ConfigError, which begins with the file and line of the declaration.
        """
        location = callsite.caller_location()
        with _prefix_errors(location):
            made: Topic[Any, Any] = Topic(
                name,
                key=key,
                value=value,
                partitions=partitions,
                replication=replication,
                config=config,
                location=location,
            )
            known = self.topics.get(made.name)
            if known is not None:
                raise ConfigError(
                    f'topic "{name}" is declared already, at {known.location or "another place"}: declare it once',
                    setting="topic",
                )
        self.topics[made.name] = made
        return made

    @property
    def producer(self) -> Producer:
        """Producer of the running App, for any thread and any coroutine of the process.

        It can be kept before the App runs; its methods raise GreteError while the App does not run. What it takes
        belongs to no job and holds back no offset: in a handler take `producer: grete.Producer`, or `self.producer`.
        """
        return self._producer

    def _find_producer(self) -> "ClientProducer":
        if self._offline_producer is not None:
            return self._offline_producer()
        runner = self._current_runner()
        if runner is None:
            raise GreteError(
                f'App "{self.name}" does not run, and its producer works while it runs: start it with `with '
                "app.running():`, grete.asgi.lifespan(app) or `grete run`, or make a grete.client.Producer"
            )
        return runner.producer()

    def consumer(self, *topics: str | Topic[Any, Any], **settings: Unpack[RouteSettings]) -> Callable[[H], H]:
        """Routes topics to a class derived from `grete.Consumer`, or to a function; each may be `async`.

        The annotations of a function say what it gets: `grete.Messages` (a batch of one partition; also without
        annotation), `grete.Batch[Order]` (the payloads of a batch), `grete.Message` (one by one), or a type (the
        payload, one by one); beside it `grete.Key[str]`, `grete.Headers`, `grete.Offset`, `grete.Attempt`,
        `grete.Producer`, `grete.Context`, and `Annotated[Pool, grete.Depends(get_pool)]`. What it returns goes to the
        topic of `publish=`. See docs/handlers.md.

        Raises ConfigError, which begins with the file and line of the declaration, says what is wrong and what is
        allowed.

        Settings:
            group (str, default that of the App): consumer group of routes that name none; else kafka's group.id, else
                the App's name
            max_messages (int, default that of the App): messages that one call of consume gets at most
            max_bytes (str | int, bytes, default that of the App): bytes of messages that one call of consume gets at
                most (one message always)
            max_wait (str | float, seconds, default that of the App): how long to wait for max_messages before a call
                with fewer
            latency (str | float, seconds, default that of the App): how long records may wait at the broker to be
                fetched together; the smallest of a group's routes counts
            stall_after (str | float, seconds, default that of the App): how long a call may take before the log names
                it with its stack, and how long a partition may stand still while records wait; or "none"
            handler_timeout (str | float, seconds, default that of the App): how long a call may take before it counts
                as hung; or "none"
            concurrency (Literal['partition', 'key', 'unordered'], default "partition"): what keeps its order: a
                partition, a key, or nothing
            exactly_once (bool, default that of the App): whether what a job produces, and its offsets, become visible
                together, in a transaction: see docs/transactions.md
            max_in_flight (int, default 4096): with "key" and "unordered": records of a partition in work at most
            max_concurrency (int, default not set): calls of the handler at once in this process, at most; by default no
                limit
            priority (int, default 0): a route is served as if it had waited this many seconds longer
            payload (object, default not set): what values are decoded to, and how
            publish (str | Topic[Any, Any], default not set): the topic that takes what the handler returns
            retry (Retry, default grete.Retry()): what happens after a failure
            dead_letter (str | Topic[Any, Any], default not set): the topic that takes records whose attempts are used
                up
            queue (bool, default False): whether a share group (KIP-932) hands out the records one by one, to more
                workers than there are partitions: see docs/queues.md
            offsets (Literal['auto', 'manual', 'at_most_once'], default "auto"): who marks records as processed, and
                when
            max_unmarked (int, default 100000): records without a mark (offsets="manual"), or since the first one not
                done ("key"), that pause a partition
            offset_map (bool, default False): whether marks ahead of the committed offset are kept in its metadata
            rate_limit (str | int, default not set): records per time, of the route in this process
            delay (str | float, seconds, default not set): records are processed when they are at least this old
            max_age (str | float, seconds, default not set): older records are skipped, and counted
            dedup (str, default not set): what identifies a record, as header:NAME, key or field:NAME: a record whose id
                came before is skipped
            dedup_window (str | float, seconds, default "10m"): with dedup: age of an id beyond which it counts no more
            dedup_memory (str | int, default "16MiB"): with dedup: memory for the ids of a partition; an id takes 112
                bytes
            tick (str | float, seconds, default not set): how often the consumer's tick method runs, with or without
                records
            nodes (Sequence[int], default not set): nodes of a swarm that run it; all by default
            partitions (Sequence[int] | Mapping[int, Sequence[int]], default not set): partitions to read without a
                group assignment: list, or dict by node
        """
        location = callsite.caller_location()
        with _prefix_errors(location):
            route_checks.check_topics(topics)
            route_checks.check_settings(dict(settings), f"consumer of {', '.join(map(str, topics))}")

        def add(handler: H) -> H:
            with _prefix_errors(location):
                made = routes.make_route(
                    len(self.routes), topics, handler, dict(settings), location, callsite.caller_locals(), self
                )
                for other in self.routes:
                    if other.group == made.group:
                        route_checks.check_compatible(other, made, made.group)
            self.routes.append(made)
            return handler

        return add

    def preload(self, function: P) -> P:
        """Runs the function once, in the order of the declarations. In a swarm it runs before the nodes are forked,
        which share the loaded data; with `run` and `start` it runs before they begin.

        ```
        @app.preload
        def load() -> None:
            model.load("model.bin")
        ```

        The function must leave no thread and no client behind. If it raises, the start ends with PreloadError.
        """
        location = callsite.caller_location()
        with _prefix_errors(location):
            self.preloads.add(function, location)
        return function

    def on_startup(self, function: L) -> L:
        """Runs the function in each process that runs the App, before the first record: in each node of a swarm, after
        the fork. In the order of the declarations.

        ```
        @app.on_startup
        async def open_pool() -> None:
            app.state.pool = await asyncpg.create_pool(...)
        ```

        An `async def` runs on the loop of the async handlers, a plain function in the thread that starts the App. If it
        raises, the start ends with StartupError, which names the function with file and line.
        """
        return self._add_hook("on_startup", function)

    def on_shutdown(self, function: L) -> L:
        """Runs the function when the App stops: after the last handler, before offsets are committed, in the reverse
        order of the declarations. What it produces is delivered.

        An `async def` runs on the loop of the async handlers, a plain function in a thread of its own. All share
        `shutdown_timeout` with the handlers. If one raises, the others run all the same, and the App ends with
        ShutdownError. While a handler does not return, none runs, because the handler may need what they close.
        After a failed start they run if anything had been started.
        """
        return self._add_hook("on_shutdown", function)

    def _add_hook(self, kind: "Literal['on_startup', 'on_shutdown']", function: L) -> L:
        location = callsite.caller_location()
        with _prefix_errors(location):
            self._lifecycle.add(kind, function, location)
        return function

    @property
    def state(self) -> State:
        """Attributes for handlers, set by hooks of the start: `app.state.pool = ...`. Each process has its own."""
        return self._lifecycle.state

    def override(self, settings: Mapping[str, object], kafka: Mapping[str, object] | None = None) -> None:
        """Sets the command line's settings, which have precedence over everything else. None means: not given."""
        self._command_line = layers.parse_layer(settings, kafka or {}, "command line")

    def settings(self) -> layers.Config:
        """Returns all settings with their origins, checked: defaults < grete.toml < environment < code < command
        line.
        """
        resolved = layers.resolve_config(self._code_layer, self._command_line)
        auto = resolved.kafka.get("enable.auto.commit")
        if auto is not None and auto.value.strip().lower() not in ("true", "1"):
            raise NotSupportedError(
                f"enable.auto.commit={auto.value} (from {auto.origin}): an App commits what its handlers processed, "
                "and nothing else; leave it out, or use grete.client.Consumer to commit by hand",
                setting="enable.auto.commit",
                origin=auto.origin,
            )
        if not any(route.is_exactly_once(resolved) for route in self.routes):
            layers.refuse_transactional_id(resolved.kafka)
        return layers.with_client_id(resolved, self.name)

    def groups(self, resolved: layers.Config) -> dict[str, list[Route]]:
        """Returns the routes by consumer group; the routes of a group share one client."""
        kafka_group = resolved.kafka.get("group.id")
        default = resolved["group"] or (kafka_group.value if kafka_group else self.name)
        groups: dict[str, list[Route]] = {}
        for route in self.routes:
            members = groups.setdefault(route.group or default, [])
            for other in members:
                route_checks.check_compatible(other, route, route.group or default)
            members.append(route)
        for group, members in groups.items():
            route_checks.check_one_kind(group, members)
            route_checks.check_one_guarantee(group, members, resolved)
        return groups

    def run(self) -> None:
        """Consumes until SIGINT, SIGTERM or `stop()`, then finishes jobs in flight, commits, leaves the groups.

        Returns after a clean stop; otherwise raises the error that ended the App. A stop that takes longer than
        `shutdown_timeout`, or a second SIGINT, names the handlers that still run, commits the marks of the others, and
        ends the process with status 2. SIGTSTP quiets, SIGTTIN dumps the stacks of all threads.
        """
        runner = self._make_runner(embedded=False)
        self._runner = runner
        try:
            runner.run()
        finally:
            self._runner = None

    def _run_node(self, node: "NodeContext", resolved: layers.Config) -> None:
        """Same as `run`, in a node of a swarm."""
        self._node = node
        runner = self._make_runner(embedded=False, node=node, resolved=resolved)
        self._runner = runner
        try:
            runner.run()
        finally:
            self._runner = None

    def start(self) -> None:
        """Runs inside a process that does other things, too: returns once clients and workers run.

        Handles no signals and never ends the process. Raises the errors of the start. An error that ends the App later
        is in `error` and raised by `stop`. A forked child starts its own App.
        """
        self._start_in_background(None)

    def _start_in_background(self, host: "asyncio.AbstractEventLoop | None") -> None:
        """Same as `start`. `host`: the event loop of the caller, if the caller can wait for the App on it."""
        from grete._processing.background_run import BackgroundRun

        embedded = BackgroundRun(self._make_runner(embedded=True, host=host))
        before, self._background_run = self._background_run, embedded
        try:
            embedded.start()
        except BaseException:
            self._background_run = before
            raise

    def stop(self, timeout: float | None = None) -> None:
        """Stops gracefully: jobs in flight end, offsets are committed, groups are left. From any thread; idempotent.

        `timeout`: seconds, instead of `shutdown_timeout`. After `start` it returns when the App has stopped, and raises
        the error that ended the App, once; `grete.TimeoutError` if a handler did not return in time. During `run`, in a
        handler, and on the event loop of a host that runs handlers, it returns at once: there, `await
        asyncio.to_thread(app.stop)`.
        """
        if self._background_run is not None:
            self._background_run.stop(timeout)
        runner = self._runner
        if runner is not None and runner.pid == os.getpid():
            runner.stop(timeout)

    def running(self) -> RunningApp:
        """Returns a context manager: `with app.running():` starts the App, and stops it at the block's end.

        `async with` does the same without blocking the event loop. That loop runs the async handlers unless `loop` says
        otherwise: they may use resources that were opened on it.
        """
        return RunningApp(self)

    @property
    def error(self) -> BaseException | None:
        """Error that ended the App after `start`; None while it runs, and after a clean stop."""
        return self._background_run.error if self._background_run is not None else None

    @property
    def node(self) -> int | None:
        """Number of this process's node in a swarm, from 0; None outside of a swarm, and in its supervisor."""
        return self._node.id if self._node is not None else None

    def quiet(self) -> None:
        """Stops handing out records. Running jobs go on, and the App stays in its groups; only a stop ends this
        state.
        """
        self._require_runner().quiet()

    def scale(self, workers: int) -> None:
        """Sets the number of worker threads, at least one. Surplus threads end after their job."""
        self._require_runner().scale(layers.parse("workers", workers, "code").value)

    def seek(self, topic: str, partition: int, offset: int | str | datetime, *, group: str | None = None) -> None:
        """Moves the position of a partition that is assigned here. From any thread.

        `offset`: a number, "earliest", "latest", or a datetime: the first record from that time on. Records that are
        fetched and not handed out are dropped, and a running job of the partition marks nothing any more. A failed
        partition is read again from the new position: see docs/failed-partitions.md. `group` is needed where several
        groups of the App read the partition.

        Raises NotAssignedError when the partition is not assigned here (in a swarm: to this node), GreteError when the
        App does not run.
        """
        if offset is None:
            raise TypeError('an offset is an int, "earliest", "latest" or a datetime, not None')
        self._require_runner().seek(topic, partition, offset, group)

    def statistics(self) -> dict[str, Any]:
        """Returns the current state of the running App: a new dict for each call. From any thread.

        - "app": its name; "node": number of this process's node in a swarm, or None.
        - "lanes": one dict for each assigned partition. Its keys are topic, partition, handler and route (its number);
          state;
        position (offset of the next record to hand out); committable (offset up to which all records are processed);
        high_watermark (of the partition); source (id of the broker that has sent the last records); in_flight and
        unmarked (records); queued_bytes; attempt; running_for and paused_for (seconds, None if the lane is not running
        or paused); stalled; lag (records that are not processed); lag_seconds (age of the oldest of them);
        last_progress (when the last one was processed, seconds since 1970). Unknown values are None. waits_for is what
        the lane waits for, in one word, wait the same as a sentence (None: all records are processed).
        last_progress_seconds is the time for which no record was handed out or processed while records wait (0 if none
        waits), and unmoved is whether that is longer than `stall_after`: see
        docs/stalls.md. A partition that cannot be read is in state "failed". It has a reason (one word), an error (what
        is wrong, and the cure) and failed_since (seconds since 1970), which are None otherwise.
        - "stalled": a text for each lane whose handler runs longer than `stall_after`: which handler, where, how long.
        - "missing_topics": a text for each topic of a route (read, `publish`, `dead_letter`) that does not exist.
        - "login_failures": for each client whose last login failed, a text with the broker, the reason and the cure.
        - "authorization_failures": for each group that the App may not use, a text with the ACL that is missing.
        - "queues": for each share group, a dict: group, held, acquired, redelivered, accepted, released, rejected,
        renewed, locks_lost (numbers of records). See docs/queues.md.
        - "transactions": for each group whose jobs are exactly once, a dict: group, transactional_id, state ("idle",
        "committing", "failed"), committing_for (seconds, or None), committed and aborted (transactions), records,
        staged_bytes, last_error (since the last commit, or None). See docs/transactions.md.
        - "counts": totals since the start: jobs, records, failures, dead_letters, expired, duplicates, stalled.
        - "workers", "busy": worker threads, and how many of them run a job; "loop_jobs": jobs that have begun on the
          event
        loop; "loop_wait": seconds for which a callback has waited for that loop, None without a loop.
        - "instances", "background": consumer instances, and the threads and tasks that these run beside their hooks.

        For regular snapshots, subscribe to `statistics.emitted`. Raises GreteError when the App does not run.
        """
        return self._require_runner().statistics()

    def metrics(self) -> str:
        """Returns the metrics of the running App, in Prometheus' text format 0.0.4. From any thread, at any rate.

        The probes serve the same text at `/metrics`. Raises GreteError when the App does not run.
        """
        return self._require_runner().metrics()

    def families(self) -> "tuple[MetricFamily, ...]":
        """Returns the metrics of the running App as objects. Raises GreteError when the App does not run."""
        return self._require_runner().families()

    def _repr_html_(self) -> str:
        """Returns a table of the routes for notebooks; with partitions and lag while the App runs."""
        from grete import _notebook

        try:
            groups = {route.id: group for group, routes in self.groups(self.settings()).items() for route in routes}
        except GreteError:  # invalid settings are reported by what uses them
            groups = {}
        try:
            statistics = self.statistics()
        except GreteError:  # it does not run, or begins to
            statistics = None
        return _notebook.app(self.name, self.routes, groups, statistics)

    def _make_runner(
        self,
        *,
        embedded: bool,
        node: "NodeContext | None" = None,
        resolved: layers.Config | None = None,
        host: "asyncio.AbstractEventLoop | None" = None,
    ) -> "Runner":
        from grete._processing.runner import Runner
        from grete._routing import pinning

        if self._current_runner() is not None:
            raise GreteError(f'App "{self.name}" runs already')
        resolved = resolved or self.settings()
        add_default_handler(resolved["log_level"])
        groups = self.groups(resolved)
        pinning.check_any_consumer(groups, self.name)
        pinning.check_pinned_topics(groups, resolved)
        self.preloads.run(self.monitor)
        groups = pinning.routes_of_node(groups, resolved, node.id if node is not None else None)
        return Runner(
            self.name,
            groups,
            resolved,
            embedded=embedded,
            node=node,
            monitor=self.monitor,
            host=host,
            hooks=self._lifecycle,
            app=self,
        )

    def _current_runner(self) -> "Runner | None":
        if self._runner is not None and self._runner.pid == os.getpid():
            return self._runner
        return self._background_run.runner if self._background_run is not None else None

    def _require_runner(self) -> "Runner":
        runner = self._current_runner()
        if runner is None:
            raise GreteError(f'App "{self.name}" does not run')
        return runner


show_settings(App.__init__, AppSettings.__annotations__, SETTINGS)
show_settings(App.consumer, RouteSettings.__annotations__, ROUTE_SETTINGS)


@contextmanager
def _prefix_errors(place: str) -> Iterator[None]:
    """Prefixes errors of a declaration with its location."""
    try:
        yield
    except ConfigError as error:
        if error.location or not place:
            raise
        cause = error.__cause__
        raise type(error)(str(error), setting=error.setting, origin=error.origin, location=place) from cause
