"""App that runs in a test."""

import contextlib
import threading
import time
from collections import Counter
from collections.abc import Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from grete import _native
from grete._config import layers, topic_patterns
from grete._plural import counted
from grete._processing.running_app import RunningApp
from grete._units import seconds
from grete.app import App
from grete.errors import ClosedError, GreteError, GroupError, KafkaError, RevokedError, TimeoutError  # noqa: A004
from grete.instrumentation import Event
from grete.testing._kafka.cluster import Cluster
from grete.testing._kafka.journal import Journal
from grete.testing._kafka.ownership import Ownership, Place

if TYPE_CHECKING:
    import asyncio

    from grete._processing.runner import Runner

Clock: TypeAlias = Literal["real", "virtual"]

# Settings for tests, where the App has none: quick reactions, and topics that handlers write to without ado.
_DEFAULTS = {
    "reconnect.backoff.ms": 10,
    "retry.backoff.ms": 20,
    "allow.auto.create.topics": True,
    # New topics that match a pattern, and new partitions.
    "metadata.max.age.ms": 200,
}
# The same for the classic protocol of groups. Without a setting that needs that protocol, the brokers decide.
_CLASSIC_DEFAULTS = {"heartbeat.interval.ms": 100}
_CLASSIC_SETTINGS = frozenset({"session.timeout.ms", "partition.assignment.strategy"})
# Seconds in which brokers answer a commit, at least, even if the time of `settle` is up.
_COMMIT_TIMEOUT = 1.0
# Seconds until a commit that failed is tried again, or the coordinator of a group is asked again.
_RETRY_BACKOFF = 0.02
# Seconds for handlers and deliveries when a block ends by an exception. They may be what has failed, and the test has.
_FAILED_STOP_TIMEOUT = 2.0


class RunningTestApp:
    """App that runs on the brokers of a test, with its threads, loop, groups and commits.

    `with kafka.run(app) as t:` starts the App, and stops it at the end of the block. `async with` does the same on a
    running event loop, which then runs the async handlers.

    Attributes:
        app: the App.
        client_id: `client.id` of the App's clients in this run.
    """

    def __init__(
        self,
        app: App,
        cluster: Cluster,
        journal: Journal,
        ownership: Ownership,
        client_id: str,
        clock: Clock,
        settings: Mapping[str, Any],
        kafka: Mapping[str, Any],
    ) -> None:
        if clock not in ("real", "virtual"):
            raise ValueError(f'clock is "real" or "virtual", not {clock!r}')
        self.app = app
        self.client_id = client_id
        self._cluster = cluster
        self._journal = journal
        self._ownership = ownership
        self._clock = clock
        self._running = RunningApp(app)
        self._is_started = False
        self._stopped = threading.Event()
        self._commits = True
        self._layer_before = layers.Layer()
        self._settings, self._kafka = settings, kafka
        self.groups: dict[str, list[str]] = {}
        self._queues: set[str] = set()
        self._loop: asyncio.AbstractEventLoop | None = None

    # Start and stop

    def __enter__(self) -> Self:
        self._prepare()
        try:
            self._running.__enter__()
            self._await_assignment()
        except BaseException:
            self.stop_quietly()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._is_started:
            try:
                if kind is None:
                    self._running.__exit__(kind, value, traceback)
                else:
                    self._stop_after_failure()
            finally:
                self._restore()

    async def __aenter__(self) -> Self:
        import asyncio

        self._prepare()
        self._loop = asyncio.get_running_loop()
        try:
            await self._running.__aenter__()
            await asyncio.to_thread(self._await_assignment)
        except BaseException:
            await asyncio.to_thread(self.stop_quietly)
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        if self._is_started:
            try:
                if kind is None:
                    await self._running.__aexit__(kind, value, traceback)
                else:
                    await asyncio.shield(asyncio.to_thread(self._stop_after_failure))
            finally:
                self._restore()

    def stop(self, timeout: float | None = None) -> None:
        """Stops the App before the end of the block: jobs in flight end, offsets are committed, groups are left."""
        if self._is_started:
            try:
                self.app.stop(timeout)
            finally:
                self._restore()

    def stop_quietly(self) -> None:
        """Stops the App. Errors are in the log, and in `app.error`."""
        with contextlib.suppress(Exception):
            self.stop()

    def _stop_after_failure(self) -> None:
        """Stops the App after an exception of the block, which has precedence over those of the stop."""
        with contextlib.suppress(Exception):
            self.app.stop(_FAILED_STOP_TIMEOUT)

    def kill(self) -> None:
        """Ends the App without hooks, commits and LeaveGroup. Its connections must be cut already."""
        runner = self._runner()
        if runner is None:
            return
        runner.release_workers()
        for client in runner.clients.values():
            with contextlib.suppress(GreteError):
                client.close(0.0)
        with contextlib.suppress(Exception):
            self.stop(1.0)

    @property
    def is_running(self) -> bool:
        """Whether the block has begun, and neither its end nor `stop` has come."""
        return self._is_started

    def withhold_commits(self) -> None:
        """Makes `settle` commit nothing more."""
        self._commits = False

    def _prepare(self) -> None:
        if self._is_started:
            raise GreteError(f'App "{self.app.name}" runs already in this block')
        app = self.app
        if self._runner() is not None:
            raise GreteError(f'App "{app.name}" runs already: a second member of its group is another App of this name')
        servers = self._cluster.bootstrap_servers
        place = {"bootstrap.servers": servers, "client.id": self.client_id, **self._cluster.client_settings}
        self._layer_before = before = app._command_line  # noqa: SLF001
        try:
            app._command_line = self._layer({**self._kafka, **place})  # noqa: SLF001
            resolved = app.settings()
            quick = _DEFAULTS | (_CLASSIC_DEFAULTS if _is_classic(resolved.kafka) else {})
            defaults = {name: value for name, value in quick.items() if name not in resolved.kafka}
            plain = {"security.protocol": "PLAINTEXT"} if "security.protocol" in resolved.kafka else {}
            app._command_line = self._layer({**defaults, **plain, **self._kafka, **place})  # noqa: SLF001
            self.groups = {
                group: sorted({topic for route in routes for topic in route.topics})
                for group, routes in app.groups(resolved).items()
            }
            self._queues = {group for group, routes in app.groups(resolved).items() if any(one.queue for one in routes)}
            read = [topic for names in self.groups.values() for topic in names]
            dead = [route.dead_letter for route in app.routes if route.dead_letter]
            self._cluster.create_topics(dict.fromkeys([*topic_patterns.names(read), *dead], 1))
        except BaseException:
            app._command_line = before  # noqa: SLF001
            raise
        self._journal.watch(app)
        app.monitor.subscribe("topic.error", self._on_topic_error)
        self._is_started = True

    def _layer(self, kafka: Mapping[str, Any]) -> layers.Layer:
        """Returns these settings of Kafka, and those of the run, above the command line's."""
        before, ours = self._layer_before, layers.parse_layer(dict(self._settings), kafka, "kafka.run")
        return layers.Layer(before.settings | ours.settings, before.kafka | ours.kafka, before.swarm | ours.swarm)

    def _restore(self) -> None:
        self._is_started = False
        self._stopped.set()
        self.app._command_line = self._layer_before  # noqa: SLF001
        self._journal.unwatch(self.app)
        self.app.monitor.unsubscribe("topic.error", self._on_topic_error)

    def _on_topic_error(self, event: Event) -> None:
        if event["error"] in ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE"):
            self._cluster.on_unknown_topic(event["topic"])

    # Waits

    def settle(self, timeout: str | float = 10.0) -> None:
        """Waits until all records are processed and committed: nothing is left to fetch, runs, or waits for a backoff.
        A partition that moves between members of the group has an owner before.

        Returns at once when that is so, by the events of the App, without polling. Records that were handed out and
        not marked may remain. With `clock="virtual"`, backoffs end at once. `timeout`: seconds, or a text like
        "30s". Raises TimeoutError after it, and the error that has ended the App.
        """
        self._check_thread()
        deadline = time.monotonic() + seconds(timeout)
        while True:
            ends = self._ends()
            self._await_settled(ends, deadline)
            if not self._commit(deadline):
                continue
            moving, due = self._moving(ends), self._due()
            if not moving and not due and self._ends() == ends and self._is_settled(ends):
                return
            if _left(deadline) <= 0 and due:
                raise TimeoutError(f'App "{self.app.name}" has not settled: {"; ".join(due)}')
            if _left(deadline) <= 0 and moving:
                places = ", ".join(f"{topic}[{partition}]" for topic, partition in moving)
                raise TimeoutError(f'App "{self.app.name}" has not settled: its group moves {places} to another member')
            if _left(deadline) <= 0:
                raise TimeoutError(f'App "{self.app.name}" has not settled: its topics get more and more records')

    async def settled(self, timeout: str | float = 10.0) -> None:  # noqa: ASYNC109
        """Same as `settle`, without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.settle, timeout)

    def await_handled(self, timeout: float = 10.0) -> None:
        """Same as `settle`, without a commit."""
        self._await_settled(self._ends(), time.monotonic() + timeout)

    def is_settled(self) -> bool:
        """Returns whether `settle` would return at once, apart from commits."""
        return not self._is_started or self._is_settled(self._ends())

    def assignment(self) -> list[Place]:
        """Returns group, topic and number of each partition of the App. Raises ClosedError after its end."""
        runner = self._runner()
        clients = (
            [] if runner is None else [(client.membership()["group"], client) for client in runner.clients.values()]
        )
        return [(group, topic, partition) for group, client in clients for topic, partition in client.assignment()]

    def _check_thread(self) -> None:
        """Raises GreteError on the event loop that runs the handlers, which a wait would block."""
        if self._loop is None:
            return
        import asyncio

        with contextlib.suppress(RuntimeError):  # this thread runs no loop
            if asyncio.get_running_loop() is self._loop:
                raise GreteError(
                    "settle would block the event loop that runs the handlers: use `await t.settled()`, or "
                    "`await kafka.settled()`"
                )

    def _await_assignment(self, timeout: float = 30.0) -> None:
        deadline = time.monotonic() + timeout
        for client in self._clients().values():
            if not self._call(client.wait_until_assigned, _left(deadline)):
                state = client.membership()
                raise TimeoutError(
                    f'App "{self.app.name}" has no partitions of group "{state["group"]}" after {timeout:.0f} s: its '
                    f"membership is {state['state']}; see the log"
                )

    def topics_of(self, group: str) -> list[str]:
        """Returns the topics that the group reads, with those that match its patterns now."""
        topics = self.groups.get(group, [])
        has_pattern = any(map(topic_patterns.is_pattern, topics))
        return topic_patterns.expand(topics, self._cluster.topics()) if has_pattern else topics

    def _ends(self) -> list[tuple[str, int, int]]:
        """Returns the end of each partition that consumer groups read. It says nothing to one member of a queue."""
        topics = {topic for group in self.groups if group not in self._queues for topic in self.topics_of(group)}
        return [(topic, partition, end) for (topic, partition), end in self._cluster.ends(topics).items()]

    def _await_settled(self, ends: list[tuple[str, int, int]], deadline: float) -> None:
        for client in self._clients().values():
            if not self._call(client.wait_until_settled, ends, _left(deadline), self._clock == "virtual"):
                raise TimeoutError(f'App "{self.app.name}" has not settled: {self._describe(ends)}')

    def _is_settled(self, ends: list[tuple[str, int, int]]) -> bool:
        settled = (self._call(client.wait_until_settled, ends, 0.0, False) for client in self._clients().values())
        return all(settled)

    def _moving(self, ends: list[tuple[str, int, int]]) -> list[tuple[str, int]]:
        """Returns the partitions without an owner that wait for one. Waits a moment if there are any."""
        found: list[tuple[str, int]] = []
        for client in self._clients().values():
            # The members of a share group share partitions, and a client without a group has them all.
            if (group := client.membership()["group"]) and group not in self._queues:
                topics = self.topics_of(group)
                of_group = [end for end in ends if end[0] in topics]
                found += self._ownership.moving(group, of_group, set(topics).difference(self.groups[group]))
        if found:
            self._stopped.wait(_RETRY_BACKOFF)
        return found

    def _due(self) -> list[str]:
        """Returns the records of queues that are not done, as texts: all members do them together. Waits a moment if
        there are any.
        """
        if not self._commits:
            return []  # brokers get no acknowledgements
        found = [text for group in sorted(self._queues) for text in self._ownership.due(group, self.topics_of(group))]
        if found:
            self._stopped.wait(_RETRY_BACKOFF)
        return found

    def _commit(self, deadline: float) -> bool:
        """Commits what is processed. Returns whether brokers have stored that."""
        for client in self._clients().values():
            if not self._commits or not client.membership()["group"]:
                continue
            try:
                self._wait_for_commit(client, max(_left(deadline), _COMMIT_TIMEOUT))
            except (GroupError, KafkaError, RevokedError) as error:
                if _left(deadline) <= 0:
                    raise TimeoutError(f'App "{self.app.name}" cannot commit: {error}') from error
                # Brokers refuse commits while the group rebalances, for example.
                self._stopped.wait(_RETRY_BACKOFF)
                return False
        return True

    def _wait_for_commit(self, client: _native.Client, timeout: float) -> None:
        """Commits, on the main thread by another thread: signals do not end the wait for the response."""
        if threading.current_thread() is not threading.main_thread():
            self._store(client, timeout)
            return
        has_ended, errors = threading.Event(), []

        def commit() -> None:
            try:
                self._store(client, timeout)
            except BaseException as error:
                errors.append(error)
            finally:
                has_ended.set()

        threading.Thread(target=commit, name="grete-testing-commit", daemon=True).start()
        has_ended.wait()
        if errors:
            raise errors[0]

    def _store(self, client: _native.Client, timeout: float) -> None:
        """Commits what is processed, or waits until the brokers have all acknowledgements of a queue."""
        if client.membership()["group"] in self._queues:
            self._call(client.flush_acks, timeout)
        else:
            self._call(client.commit, None, timeout)

    def _call(self, method: Any, *arguments: object) -> Any:
        """Calls a method of a client. Raises the error that has ended the App instead of a ClosedError."""
        try:
            return method(*arguments)
        except ClosedError as error:
            self.app.stop()  # raises it
            raise self.app.error or GreteError(f'App "{self.app.name}" has stopped: start it again') from error

    def _clients(self) -> Mapping[str, _native.Client]:
        runner = self._runner()
        if runner is None:
            if self._is_started:
                self.app.stop()  # raises the error that has ended the App
            raise self.app.error or GreteError(f'App "{self.app.name}" does not run: use `with kafka.run(app) as t:`')
        return runner.clients

    def _runner(self) -> "Runner | None":
        return self.app._current_runner()  # noqa: SLF001

    def _describe(self, ends: list[tuple[str, int, int]]) -> str:
        """Describes what has kept the App from settling."""
        try:
            lanes = self.app.statistics()["lanes"]
        except GreteError:
            return "it does not run"
        by_place = {(topic, partition): end for topic, partition, end in ends}
        texts = []
        for lane in lanes:
            end = by_place.get((lane["topic"], lane["partition"]))
            behind = end is not None and (lane["position"] is None or lane["position"] < end)
            if not behind and lane["state"] == "idle":
                continue
            text = f"{lane['topic']}[{lane['partition']}] is {lane['state']} at offset {lane['position']} of {end}"
            if lane["attempt"] > 1:
                text += f", attempt {lane['attempt']}"
            if lane["paused_for"] is not None:
                text += f", waits for another {lane['paused_for']:.1f} s"
            text += self._describe_jobs(lane["topic"], lane["partition"])
            if lane["error"]:
                text += f", {lane['error']}"
            texts.append(text)
        states = [
            f'group "{state["group"]}" is {state["state"]}' for state in self._memberships() if not state["ready"]
        ]
        return "; ".join(states + texts) or "it has settled just now: raise the timeout"

    def _describe_jobs(self, topic: str, partition: int) -> str:
        runner = self._runner()
        jobs = [] if runner is None else runner.running_jobs()
        handlers: dict[str, list[float]] = {}
        undelivered: Counter[str] = Counter()
        for job in jobs:
            if (job["topic"], job["partition"]) != (topic, partition):
                continue
            if job["undelivered"] is None:
                handlers.setdefault(job["handler"], []).append(job["seconds"])
            else:
                undelivered[job["handler"]] += job["undelivered"]
        text = "".join(f", {name} runs for {max(times):.1f} s" for name, times in handlers.items())
        return text + "".join(
            f", {name} has returned and waits for the delivery of {counted(count, 'record')} that it produced"
            for name, count in undelivered.items()
        )

    def _memberships(self) -> list[dict[str, Any]]:
        runner = self._runner()
        return [] if runner is None else [client.membership() for client in runner.clients.values()]


def _is_classic(kafka: Mapping[str, layers.SettingValue]) -> bool:
    """Returns whether these settings select the classic protocol of groups on all brokers."""
    chosen = kafka.get("group.protocol")
    protocol = "auto" if chosen is None else str(chosen.value).lower()
    if protocol == "auto":
        return "group.remote.assignor" not in kafka and not _CLASSIC_SETTINGS.isdisjoint(kafka)
    return protocol == "classic"


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 0.0)
