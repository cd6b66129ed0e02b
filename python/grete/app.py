"""The App: settings and routes."""

from collections.abc import Callable, Mapping
from typing import Any, Literal, TypedDict, TypeVar, Unpack

from grete import _place, config, routes
from grete.errors import ConfigError, GreteError, NotBuiltError
from grete.retry import Retry
from grete.routes import Route

H = TypeVar("H", bound=Callable[..., object])


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
    log_level: str
    leak_report: bool
    loop: Literal["auto", "asyncio", "uvloop"]


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
        self._command_line = config.Layer()
        self._stop: Callable[[], None] | None = None

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
                        routes.check_disjoint(other, made, made.group)
            self.routes.append(made)
            return handler

        return add

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
                routes.check_disjoint(other, route, route.group or default)
            members.append(route)
        return groups

    def run(self) -> None:
        """Consumes until SIGINT, SIGTERM or `stop()`, then finishes jobs in flight, commits, leaves the groups.

        Returns after a clean stop. Raises what ended it otherwise. A stop that takes longer than `shutdown_timeout`, or
        a second SIGINT, dumps all stacks and ends the process with status 2.
        """
        from grete.processing.runner import Runner

        if self._stop is not None:
            raise GreteError(f'App "{self.name}" runs already')
        if not self.routes:
            raise ConfigError(f'App "{self.name}" has no consumer: declare one with @app.consumer("topic")')
        resolved = self.settings()
        runner = Runner(self.name, self.groups(resolved), resolved)
        self._stop = runner.stop
        try:
            runner.run()
        finally:
            self._stop = None

    def stop(self) -> None:
        """Makes `run` stop gracefully and return. From any thread; does nothing when `run` does not run."""
        stop = self._stop
        if stop is not None:
            stop()
