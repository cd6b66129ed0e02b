"""The App: settings and routes."""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, TypeVar, Unpack

from grete import _place, config, routes
from grete.errors import ConfigError, GreteError, NotBuiltError
from grete.instrumentation.monitor import Monitor
from grete.retry import Retry
from grete.routes import Route
from grete.running import Running
from grete.swarm.preload import Preloads

if TYPE_CHECKING:
    from grete.instrumentation.metrics import Family
    from grete.processing.embedded import Embedded
    from grete.processing.runner import Runner
    from grete.swarm.context import NodeContext

H = TypeVar("H", bound=Callable[..., object])
P = TypeVar("P", bound=Callable[[], object])


class SwarmTable(TypedDict, total=False):
    """The settings of `grete swarm`. Durations and sizes as in `AppSettings`; "none" switches off what can be."""

    nodes: int
    max_rss: str | int
    gil_timeout: str | float
    report_timeout: str | float
    unsteady_timeout: str | float
    restart_backoff: str | float | tuple[str | float, str | float]
    steady_after: str | float
    crash_loop_after: int
    control: str
    probes: str | int
    cpus: Literal["auto", "none"] | Sequence[int]


class AppSettings(TypedDict, total=False):
    """Grete's own settings in code. Durations are strings like "30s", or seconds; sizes "64MiB", or bytes."""

    workers: int
    group: str
    max_messages: int
    max_bytes: str | int
    max_wait: str | float
    stall_after: str | float
    handler_timeout: str | float
    shutdown_timeout: str | float
    queued_bytes: str | int
    statistics_interval: str | float
    log_level: str
    leak_report: bool
    loop: Literal["auto", "asyncio", "uvloop"]
    probes: str | int
    swarm: SwarmTable
    nodes: Mapping[int, Sequence[str]]


class RouteSettings(TypedDict, total=False):
    """What a route may have of its own. Durations and sizes as in `AppSettings`."""

    group: str
    max_messages: int
    max_bytes: str | int
    max_wait: str | float
    stall_after: str | float
    handler_timeout: str | float
    concurrency: Literal["partition", "key", "unordered"]
    max_in_flight: int
    priority: int
    payload: object
    retry: Retry
    dead_letter: str
    offsets: Literal["auto", "manual", "at_most_once"]
    max_unmarked: int
    offset_map: bool
    rate_limit: str | int
    delay: str | float
    expire: str | float
    tick: str | float
    nodes: Sequence[int]
    partitions: Sequence[int] | Mapping[int, Sequence[int]]


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
    """

    def __init__(self, name: str, *, kafka: Mapping[str, Any] | None = None, **settings: Unpack[AppSettings]) -> None:
        with _place.told(_place.caller()):
            if not isinstance(name, str) or not name.strip():
                raise ConfigError(f'an App has a name, like App("billing"), not {name!r}', setting="name")
            if kafka is not None and not isinstance(kafka, Mapping):
                raise ConfigError(
                    f'kafka is a mapping, like {{"bootstrap.servers": ...}}, not {kafka!r}', setting="kafka"
                )
            self._code = config.layer(dict(settings), kafka or {}, "code")
        self.name = name
        self.routes: list[Route] = []
        self.preloads = Preloads()
        self.monitor = Monitor()
        """What happens in this App: see `grete.instrumentation.Monitor`."""
        self._command_line = config.Layer()
        self._node: NodeContext | None = None
        self._runner: Runner | None = None
        self._embedded: Embedded | None = None

    def consumer(self, *topics: str, **settings: Unpack[RouteSettings]) -> Callable[[H], H]:
        """Routes topics to a class derived from `grete.Consumer`, or to a function; each may be `async`.

        What a function gets is in its annotation: `grete.Messages` (a batch of one partition; also without annotation),
        `grete.Message` (one by one), or a type (one by one, decoded from JSON, or as `payload=` says).

        ConfigError begins with the file and line of the declaration, says what is wrong and what would do.
        """
        place = _place.caller()
        with _place.told(place):
            routes.check_topics(topics)
            routes.check_settings(dict(settings), f"consumer of {', '.join(topics)}")

        def add(handler: H) -> H:
            with _place.told(place):
                made = routes.make(len(self.routes), topics, handler, dict(settings), place, _place.names())
                for other in self.routes:
                    if other.group == made.group:
                        routes.check_beside(other, made, made.group)
            self.routes.append(made)
            return handler

        return add

    def preload(self, function: P) -> P:
        """Runs the function once, in the order of the declarations: before the nodes of a swarm are forked, which share
        what it has loaded; with `run` and `start` before these begin.

        ```
        @app.preload
        def load() -> None:
            model.load("model.bin")
        ```

        It must leave no thread and no client behind. One that raises ends the start with PreloadError.
        """
        place = _place.caller()
        with _place.told(place):
            self.preloads.add(function, place)
        return function

    def override(self, settings: Mapping[str, object], kafka: Mapping[str, object] | None = None) -> None:
        """Sets what the command line said; it goes before everything else. None means: not said."""
        self._command_line = config.layer(settings, kafka or {}, "command line")

    def settings(self) -> config.Config:
        """All settings with their origins, checked: defaults < grete.toml < environment < code < command line."""
        resolved = config.resolve(self._code, self._command_line)
        auto = resolved.kafka.get("enable.auto.commit")
        if auto is not None and auto.value.strip().lower() not in ("true", "1"):
            raise NotBuiltError(
                f"enable.auto.commit={auto.value} (from {auto.origin}): an App commits what its handlers processed, "
                "and nothing else; leave it out, or use grete.client.Consumer to commit by hand",
                setting="enable.auto.commit",
                origin=auto.origin,
            )
        return resolved

    def groups(self, resolved: config.Config) -> dict[str, list[Route]]:
        """Routes by consumer group; those of one group share one client."""
        kafka_group = resolved.kafka.get("group.id")
        default = resolved["group"] or (kafka_group.value if kafka_group else self.name)
        groups: dict[str, list[Route]] = {}
        for route in self.routes:
            members = groups.setdefault(route.group or default, [])
            for other in members:
                routes.check_beside(other, route, route.group or default)
            members.append(route)
        return groups

    def run(self) -> None:
        """Consumes until SIGINT, SIGTERM or `stop()`, then finishes jobs in flight, commits, leaves the groups.

        Returns after a clean stop. Raises what ended it otherwise. A stop that takes longer than `shutdown_timeout`, or
        a second SIGINT, names who still runs, commits what the others have done, and ends the process with status 2.
        SIGTSTP quiets, SIGTTIN dumps the stacks of all threads.
        """
        runner = self._make(embedded=False)
        self._runner = runner
        try:
            runner.run()
        finally:
            self._runner = None

    def _run_node(self, node: "NodeContext", resolved: config.Config) -> None:
        """As `run`, in a node of a swarm."""
        self._node = node
        runner = self._make(embedded=False, node=node, resolved=resolved)
        self._runner = runner
        try:
            runner.run()
        finally:
            self._runner = None

    def start(self) -> None:
        """Runs inside of a process that does other things, too: returns once clients and workers run.

        Handles no signals and never ends the process. Raises what is wrong; an error that ends the App later is in
        `error` and raised by `stop`. A forked child starts its own.
        """
        from grete.processing.embedded import Embedded

        embedded = Embedded(self._make(embedded=True))
        before, self._embedded = self._embedded, embedded
        try:
            embedded.start()
        except BaseException:
            self._embedded = before
            raise

    def stop(self, timeout: float | None = None) -> None:
        """Stops gracefully: jobs in flight end, offsets are committed, groups are left. From any thread; idempotent.

        `timeout`: seconds, instead of `shutdown_timeout`. After `start` it returns when that is over, and raises what
        ended the App, once; `grete.TimeoutError` if a handler did not return in time. During `run`, and in a handler,
        it returns at once.
        """
        if self._embedded is not None:
            self._embedded.stop(timeout)
        runner = self._runner
        if runner is not None and runner.pid == os.getpid():
            runner.stop(timeout)

    def running(self) -> Running:
        """`with app.running():` starts the App, and stops it at the block's end; `async with` does so off the loop."""
        return Running(self)

    @property
    def error(self) -> BaseException | None:
        """What ended the App after `start`; None while it runs, and after a clean stop."""
        return self._embedded.error if self._embedded is not None else None

    @property
    def node(self) -> int | None:
        """Which node of a swarm this process is, from 0 up; None outside of one, and in its supervisor."""
        return self._node.id if self._node is not None else None

    def quiet(self) -> None:
        """Hands out no more records. What runs goes on, and the App stays in its groups; only a stop ends this."""
        self._running().quiet()

    def scale(self, workers: int) -> None:
        """Runs handlers in so many threads from now on, at least one. Those that are too many end after their job."""
        if workers < 1:
            raise ConfigError(f"workers is a number from 1 up, not {workers}", setting="workers")
        self._running().scale(workers)

    def statistics(self) -> dict[str, Any]:
        """What the running App does just now: a dict that is made anew with each call. From any thread.

        - "app": its name; "node": which of a swarm this process is, or None.
        - "lanes": one dict for each assigned partition: topic, partition, handler, route (its number), state, position
          (offset of the next record to hand out), committable (offset up to which all is done), high_watermark (of the
          partition), in_flight and unmarked (records), queued_bytes, attempt, running_for and paused_for (seconds, None
          if it is neither), whether it is stalled, lag (records that are not done), lag_seconds (age of the oldest of
          them) and last_progress (when the last one was done, seconds since 1970). What is not known yet is None.
        - "stalled": a text for each lane whose handler runs longer than `stall_after`: which handler, where, how long.
        - "counts": totals since the start: jobs, records, failures, dead_letters, expired, stalled.
        - "workers", "busy": worker threads, and how many of them run a job; "loop_jobs": jobs on the event loop.
        - "instances", "background": consumer instances, and the threads and tasks that these run beside their hooks.

        Who wants them regularly subscribes to `statistics.emitted`. Raises GreteError when the App does not run.
        """
        return self._running().statistics()

    def metrics(self) -> str:
        """What the running App counts and measures, in Prometheus' text format 0.0.4. From any thread, at any rate.

        It is what the probes' `/metrics` answers. Raises GreteError when the App does not run.
        """
        return self._running().metrics()

    def families(self) -> "tuple[Family, ...]":
        """The same as objects. Raises GreteError when the App does not run."""
        return self._running().families()

    def _make(
        self, *, embedded: bool, node: "NodeContext | None" = None, resolved: config.Config | None = None
    ) -> "Runner":
        from grete.processing.runner import Runner
        from grete.swarm import pins

        if self._live() is not None:
            raise GreteError(f'App "{self.name}" runs already')
        resolved = resolved or self.settings()
        groups = self.groups(resolved)
        pins.check_some(groups, self.name)
        pins.check_topics(groups, resolved)
        self.preloads.run(self.monitor)
        groups = pins.of_node(groups, resolved, node.id if node is not None else None)
        return Runner(self.name, groups, resolved, embedded=embedded, node=node, monitor=self.monitor)

    def _live(self) -> "Runner | None":
        if self._runner is not None and self._runner.pid == os.getpid():
            return self._runner
        return self._embedded.runner if self._embedded is not None else None

    def _running(self) -> "Runner":
        runner = self._live()
        if runner is None:
            raise GreteError(f'App "{self.name}" does not run')
        return runner
