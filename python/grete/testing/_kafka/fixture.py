"""Fixture `kafka`: brokers of one test, and what tests do with them."""

import inspect
import itertools
import os
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from datetime import datetime
from typing import Any, Unpack

from grete._dlq.dead_letter import parse_dead_letter
from grete._plural import counted
from grete._routing.setting_types import AppSettings
from grete._units import seconds
from grete.app import App
from grete.client import Producer
from grete.errors import GreteError
from grete.payloads import decoder_of
from grete.testing._kafka.cluster import CLIENT_ID, Cluster
from grete.testing._kafka.crash import Crash
from grete.testing._kafka.faults import Faults
from grete.testing._kafka.journal import Journal
from grete.testing._kafka.ownership import Ownership
from grete.testing._kafka.running import Clock, RunningTestApp
from grete.testing._records import (
    Encode,
    Headers,
    Key,
    Record,
    encode_value,
    key_bytes,
    message,
    timestamp_ms,
    wire_headers,
)
from grete.testing._result import DeadLetter, Records
from grete.topic import Topic, name_of

_numbers = itertools.count(1)

# Seconds in which brokers take a record.
_PRODUCE_TIMEOUT = 30.0


class Kafka(Faults):
    """Brokers of one test: `pytest` passes them to each test that has an argument `kafka`.

    ```
    def test_orders(kafka):
        with kafka.run(app) as t:
            kafka.produce("orders", Order(1), key="a")
            t.settle()
        assert kafka.committed("orders") == {0: 1}
        assert kafka.produced("invoices").values() == [b"1"]
    ```

    Attributes:
        bootstrap_servers: addresses for clients of any kind.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.bootstrap_servers = cluster.bootstrap_servers
        self._journal = Journal()
        self._producer: Producer | None = None
        self._apps: list[RunningTestApp] = []
        self._ownership = Ownership(cluster, self._running_apps)
        self._crashes: list[Crash] = []
        self._added = []

    # Apps

    def run(
        self,
        app: App,
        *,
        clock: Clock = "real",
        kafka: Mapping[str, Any] | None = None,
        **settings: Unpack[AppSettings],
    ) -> RunningTestApp:
        """Returns a context manager that runs an App on these brokers: `with` or `async with`.

        Topics of its routes that do not exist are created, with one partition. The block begins when the App has its
        partitions, and its end stops the App. `kafka` and `settings` have precedence over those of the App.

        `clock="virtual"`: `settle` ends backoffs at once. The time of the brokers and of handlers is the real one.
        """
        if not hasattr(app, "routes"):
            raise TypeError(f"kafka.run takes an App, as `from shop import app` gets it, not {app!r}")
        client_id = f"{app.name}-{os.getpid()}-{next(_numbers)}"
        running = RunningTestApp(
            app, self._cluster, self._journal, self._ownership, client_id, clock, settings, kafka or {}
        )
        self._apps.append(running)
        return running

    def settle(self, timeout: str | float = 10.0) -> None:
        """Waits until all running Apps have processed and committed all records, also those that they wrote for each
        other. See `RunningTestApp.settle`.
        """
        running = self._running_apps()
        if not running:
            raise GreteError("no App runs: use `with kafka.run(app) as t:`")
        deadline = time.monotonic() + seconds(timeout)
        while True:
            for app in running:
                app.settle(max(deadline - time.monotonic(), 0.0))
            # A partition that moves from an App not yet asked to one that was asked is in neither answer.
            owners = self._ownership.owners()
            if all(app.is_settled() for app in running) and self._ownership.owners() == owners:
                return

    def _running_apps(self) -> list[RunningTestApp]:
        return [app for app in self._apps if app.is_running]

    async def settled(self, timeout: str | float = 10.0) -> None:  # noqa: ASYNC109
        """Same as `settle`, without blocking the event loop."""
        import asyncio

        await asyncio.to_thread(self.settle, timeout)

    # Topics and records

    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Creates topics with their numbers of partitions, unless they exist. Raises GreteError for a topic that exists
        with another number.
        """
        present = self._cluster.topics()
        for name, partitions in topics.items():
            if (found := present.get(name, partitions)) != partitions:
                raise GreteError(
                    f'topic "{name}" exists with {counted(found, "partition")}, not {partitions}: create it before the '
                    "App runs and before records are written to it"
                )
        self._cluster.create_topics(topics)

    def create_topic(self, topic: str, partitions: int = 1) -> None:
        """Creates a topic, unless it exists. Raises GreteError if it exists with another number of partitions."""
        self.create_topics({topic: partitions})

    def topics(self) -> dict[str, int]:
        """Returns the topics of the test with their numbers of partitions."""
        return self._cluster.topics()

    def produce(
        self,
        topic: str | Topic[Any, Any],
        *values: Any,
        key: Key = None,
        headers: Headers = (),
        partition: int | None = None,
        timestamp: int | datetime | None = None,
        encode: Encode | None = None,
    ) -> list[Record]:
        """Writes values, or `Record` objects, and returns them as written, with partition and offset.

        Values are encoded as in `testing.consume`. `key`, `headers`, `partition` and `timestamp` are for records that
        have none of their own. Without a partition, records are placed by their key, or else on one partition. A
        `grete.Topic` encodes keys and values.
        """
        encode_key: Encode | None = None
        if isinstance(topic, Topic):
            encode_key = topic.encode_key
            if encode is None and topic.value is not None:
                encode = topic.encode_value
            topic = topic.name
        self._cluster.create_topics({topic: 1} if topic not in self._cluster.topics() else {})
        producer = self._open_producer()
        records = [value if isinstance(value, Record) else Record(value) for value in values]
        sent = []
        for record in records:
            at = record.timestamp if record.timestamp is not None else timestamp
            own_key = key_bytes(key if record.key is None else record.key, encode_key)
            value = encode_value(record.value, encode)
            place = partition if record.partition is None else record.partition
            if place is None and own_key is None:
                place = 0
            own_headers = wire_headers(record.headers or headers)
            delivery = producer.produce(
                topic, value, key=own_key, headers=own_headers, partition=place,
                timestamp=None if at is None else timestamp_ms(at),
            )  # fmt: skip
            sent.append((delivery, value, own_key, own_headers))
        written = []
        for delivery, value, own_key, own_headers in sent:
            delivery.wait(_PRODUCE_TIMEOUT)
            if delivery.error is not None:
                raise delivery.error
            written.append(Record(value, own_key, own_headers, None, topic, delivery.partition, delivery.offset))
        return written

    def produced(self, topic: str | Topic[Any, Any]) -> Records:
        """Returns all records of a topic, by partition: `kafka.produced("invoices").values()`, `.payloads(Invoice)`.

        The payloads of a `grete.Topic` need no type.
        """
        records = Records(self._cluster.records(name_of(topic)))
        if isinstance(topic, Topic) and topic.value is not None:
            records.decoder = decoder_of(topic.value, topic.name)
        return records

    def values(self, topic: str | Topic[Any, Any], payload: object = None) -> list[Any]:
        """Returns the values of all records of a topic, by partition: bytes, or decoded as a type or a format."""
        records = self.produced(topic)
        return records.values() if payload is None and records.decoder is None else records.payloads(payload)

    def dead_letters(self, topic: str | Topic[Any, Any]) -> list[DeadLetter]:
        """Returns the dead letters of a topic, by partition. Other records of the topic are left out."""
        found = []
        name: str = name_of(topic)
        for record in self._cluster.records(name):
            dead = parse_dead_letter(message(record.value, key=record.key, headers=record.headers, topic=name))
            if dead is not None:
                found.append(DeadLetter.of(record, dead))
        return found

    def committed(self, topic: str | Topic[Any, Any], group: str | None = None) -> dict[int, int]:
        """Returns the committed offset of each partition of a topic: the next one to read. Partitions of which no
        record is committed are left out.

        `group`: needed if several groups of the test's Apps read the topic.
        """
        topic = name_of(topic)
        if group is None:
            groups = {name for app in self._apps for name in app.groups if topic in app.topics_of(name)}
            if len(groups) != 1:
                what = f"the groups {', '.join(sorted(groups))} read" if groups else "no App has run that reads"
                raise GreteError(
                    f'{what} the topic "{topic}": name a group, like committed("{topic}", group="billing")'
                )
            (group,) = groups
        committed = self._cluster.committed(group).items()
        return {partition: offset for (of, partition), offset in committed if of == topic and offset > 0}

    def runs(self, topic: str | Topic[Any, Any], offset: int, partition: int = 0) -> int:
        """Returns how many times handlers were called with a record."""
        return self._journal.runs(name_of(topic), partition, offset)

    # Crashes

    def crash(self, t: RunningTestApp) -> AbstractContextManager[None]:
        """Kills an App between its handlers and the commit, as SIGKILL would: `with kafka.crash(t):`.

        From the beginning of the block on, brokers get no commit of the App, and `t.settle` waits for handlers alone.
        At the end of the block the App ends as soon as its handlers have returned: without hooks, without LeaveGroup.
        The next App processes the records of the block again.
        """
        crash = Crash(self._embedded(), t)
        self._crashes.append(crash)
        return crash

    # End

    def table(self) -> str:
        """Returns where each record is that Apps read, as text: partition, offset, runs, attempt, committed or not."""
        read = [(topic, group) for app in self._apps for group in app.groups for topic in app.topics_of(group)]
        return self._journal.table(self._cluster, read)

    def close(self) -> None:
        """Stops Apps that still run, and removes what the test has left. Raises GreteError if an App did not crash."""
        try:
            for app in reversed(self._apps):
                app.stop_quietly()
            for group in {group for app in self._apps for group in app.groups}:
                self._cluster.release_group(group)
            if self._producer is not None:
                self._producer.close(5.0)
        finally:
            self._ownership.close()
            self._cluster.close()
        if not all(crash.has_begun for crash in self._crashes):
            raise GreteError("no App has crashed: kafka.crash(t) does so at the end of a block, `with kafka.crash(t):`")

    def _open_producer(self) -> Producer:
        if self._producer is None:
            self._producer = Producer(
                {"bootstrap.servers": self.bootstrap_servers, "client.id": CLIENT_ID, "linger.ms": 0}
            )
        return self._producer


def explore(
    scenario: Callable[[Kafka], object],
    seeds: int | Iterable[int] = 100,
    *,
    topics: Mapping[str, int] | None = None,
    brokers: int = 1,
    faults: int = 5,
) -> None:
    """Runs a scenario once per seed, on new embedded brokers with other faults each time.

    ```
    def scenario(kafka):
        with kafka.run(app) as t:
            kafka.produce("orders", *range(10))
            t.settle(30)
        assert sorted(kafka.values("invoices")) == ...

    testing.explore(scenario, seeds=1000)
    ```

    The seed chooses at most `faults` faults: errors that clients retry, lost connections, lost responses and delays, by
    API. `seeds`: a number, or the seeds themselves. Ends at the first seed whose scenario raises. The exception has a
    note with that seed, the smallest one that fails, and its faults.
    """
    from grete.testing._kafka.embedded import EmbeddedCluster
    from grete.testing._kafka.schedule import FaultSchedule

    for seed in _seeds(seeds):
        schedule = FaultSchedule(seed, faults)
        kafka = Kafka(EmbeddedCluster(brokers))
        try:
            kafka.create_topics(topics or {})
            schedule.apply(kafka)
            if inspect.iscoroutine(returned := scenario(kafka)):
                returned.close()
                raise TypeError("explore calls a function: use `def`, and asyncio.run in it, not `async def`")
        except Exception as error:
            error.add_note(f"smallest failing seed: {seed}; run it alone with explore(..., seeds=[{seed}])\n{schedule}")
            if table := kafka.table():
                error.add_note(table)
            raise
        finally:
            kafka.close()


def _seeds(seeds: int | Iterable[int]) -> list[int]:
    """Returns the seeds. Raises ValueError for none, with which a test could not fail."""
    found = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not found or not all(isinstance(seed, int) for seed in found):
        raise ValueError(f"explore needs a number of seeds from 1 on, or a list of seeds like [17], not {seeds!r}")
    return found
