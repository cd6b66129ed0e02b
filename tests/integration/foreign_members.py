"""Members of a group that are other clients. Each writes down what it reads, and when it owns which partition."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any, Protocol

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from confluent_kafka import Consumer

from tests.kafka import KafkaCluster
from tests.kafka.admin import QUIET
from tests.kafka.java import JavaConsumer

# Of librdkafka and aiokafka, in milliseconds. Java commits after each poll. Sessions suit a busy machine.
COMMIT_MS = 200
SESSION_MS = 30_000
HEARTBEAT_MS = 300
JAVA = "org.apache.kafka.clients.consumer."
JAVA_ASSIGNORS = {
    "range": f"{JAVA}RangeAssignor",
    "roundrobin": f"{JAVA}RoundRobinAssignor",
    "sticky": f"{JAVA}StickyAssignor",
    "cooperative-sticky": f"{JAVA}CooperativeStickyAssignor",
}
AIOKAFKA_ASSIGNORS = {"range": RangePartitionAssignor, "roundrobin": RoundRobinPartitionAssignor}


class History:
    """What one member has read, and owned: (partition, from, until) on the monotonic clock, in nanoseconds.

    `lost_at`: when the member said that it had lost partitions; `leaves_at`: when it was asked to leave.
    """

    def __init__(self) -> None:
        self.seen: dict[int, Counter[int]] = {}
        self.spans: list[tuple[int, int, int]] = []
        self.lost_at: list[int] = []
        self.leaves_at: int | None = None
        self._since: dict[int, int] = {}

    def lost_before_leaving(self) -> list[str]:
        """When the member lost partitions, before it was asked to leave; in milliseconds from then."""
        until = self.leaves_at or 0
        return [f"{(at - until) / 1e6:.1f} ms" for at in self.lost_at if at < until]

    def read(self, partition: int, first: int, last: int) -> None:
        self.seen.setdefault(partition, Counter()).update(range(first, last + 1))

    def assigned(self, partitions: list[int], at: int) -> None:
        for partition in partitions:
            self._since.setdefault(partition, at)

    def revoked(self, partitions: list[int], at: int) -> None:
        for partition in partitions:
            if (since := self._since.pop(partition, None)) is not None:
                self.spans.append((partition, since, at))

    def end(self, at: int) -> None:
        """It has left: what it still owned is free."""
        self.revoked(list(self._since), at)


class ForeignMember(Protocol):
    """A member that reads until `leave`."""

    history: History

    def leave(self) -> None:
        """Leaves in order, and returns when it has."""

    def kill(self) -> None:
        """Ends it at the end of a failed test; may be called again."""


class ConfluentMember:
    """confluent-kafka (librdkafka), polled by a thread. `assignor` None: the consumer protocol."""

    def __init__(self, kafka: KafkaCluster, group: str, topic: str, assignor: str | None) -> None:
        self.history = History()
        settings: dict[str, Any] = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, **QUIET}
        if assignor is None:
            settings["group.protocol"] = "consumer"
        else:
            settings |= {"session.timeout.ms": SESSION_MS, "heartbeat.interval.ms": HEARTBEAT_MS}
            settings["partition.assignment.strategy"] = assignor
        settings |= {"auto.commit.interval.ms": COMMIT_MS, "auto.offset.reset": "earliest"}
        self._consumer = Consumer(settings)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(topic,), name="confluent-member")
        self._thread.start()

    def _run(self, topic: str) -> None:
        history = self.history

        def assigned(_: Consumer, tps: list[Any]) -> None:
            history.assigned([tp.partition for tp in tps], time.monotonic_ns())

        def revoked(_: Consumer, tps: list[Any]) -> None:
            history.revoked([tp.partition for tp in tps], time.monotonic_ns())

        def lost(_: Consumer, tps: list[Any]) -> None:
            history.lost_at.append(time.monotonic_ns())
            revoked(_, tps)

        self._consumer.subscribe([topic], on_assign=assigned, on_revoke=revoked, on_lost=lost)
        while not self._stop.is_set():
            for message in self._consumer.consume(200, timeout=0.05):
                partition, offset = message.partition(), message.offset()
                if message.error() is None and partition is not None and offset is not None:
                    history.read(partition, offset, offset)
        leaves_at = time.monotonic_ns()
        self._consumer.close()
        history.end(leaves_at)

    def leave(self) -> None:
        self.history.leaves_at = time.monotonic_ns()
        self.kill()

    def kill(self) -> None:
        self._stop.set()
        self._thread.join(60.0)
        assert not self._thread.is_alive(), "confluent-kafka does not close"


class AiokafkaMember:
    """aiokafka, on an event loop of its own. It has the classic protocol and eager assignors."""

    def __init__(self, kafka: KafkaCluster, group: str, topic: str, assignor: str) -> None:
        self.history = History()
        self._settings: dict[str, Any] = {
            "bootstrap_servers": kafka.bootstrap_servers,
            "group_id": group,
            "auto_offset_reset": "earliest",
            "auto_commit_interval_ms": COMMIT_MS,
            "heartbeat_interval_ms": HEARTBEAT_MS,
            "session_timeout_ms": SESSION_MS,
            "partition_assignment_strategy": (AIOKAFKA_ASSIGNORS[assignor],),
        }
        self._failure: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._main, args=(topic,), name="aiokafka-member")
        self._thread.start()

    def _main(self, topic: str) -> None:
        try:
            self._loop.run_until_complete(self._run(topic))
        except BaseException as error:
            self._failure = error
        finally:
            self.history.end(time.monotonic_ns())

    async def _run(self, topic: str) -> None:
        history = self.history

        class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
            async def on_partitions_revoked(self, revoked: set[Any]) -> None:
                history.revoked([tp.partition for tp in revoked], time.monotonic_ns())

            async def on_partitions_assigned(self, assigned: set[Any]) -> None:
                history.assigned([tp.partition for tp in assigned], time.monotonic_ns())

        member = AIOKafkaConsumer(**self._settings)
        member.subscribe([topic], listener=Listener())
        await member.start()
        try:
            while not self._stop.is_set():
                for messages in (await member.getmany(timeout_ms=50, max_records=200)).values():
                    for message in messages:
                        history.read(message.partition, message.offset, message.offset)
        finally:
            leaves_at = time.monotonic_ns()
            await member.stop()
            history.end(leaves_at)

    def leave(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self.kill()
        if self._failure is not None:
            raise self._failure

    def kill(self) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join(60.0)
            assert not self._thread.is_alive(), "aiokafka does not close"
            self._loop.close()


class JavaMember:
    """Kafka's own consumer. `assignor` None: the consumer protocol.

    A classic member that leaves while its group rebalances calls `onPartitionsLost`, not `onPartitionsRevoked`
    (`ConsumerCoordinator.onLeavePrepare`).
    """

    def __init__(self, kafka: KafkaCluster, group: str, topic: str, assignor: str | None) -> None:
        self.history = History()
        settings: dict[str, object] = {"group_protocol": "consumer"}
        if assignor is not None:
            settings = {
                "partition_assignment_strategy": JAVA_ASSIGNORS[assignor],
                "session_timeout_ms": SESSION_MS,
                "heartbeat_interval_ms": HEARTBEAT_MS,
            }
        self._consumer = JavaConsumer(kafka, group, topic, **settings)

    def leave(self) -> None:
        self.history.leaves_at = time.monotonic_ns()
        self._consumer.leave()
        for event in self._consumer.events:
            match event["event"]:
                case "assigned":
                    self.history.assigned([index for _, index in event["partitions"]], event["at"])
                case "revoked":
                    self.history.revoked([index for _, index in event["partitions"]], event["at"])
                case "lost":
                    self.history.lost_at.append(event["at"])
                    self.history.revoked([index for _, index in event["partitions"]], event["at"])
                case "records":
                    for first, last in event["runs"]:
                        self.history.read(event["partition"], first, last)
                case "closed":
                    self.history.end(event["at"])
        assert self._consumer.events[-1]["event"] == "closed", "Java's consumer failed; see its output"

    def kill(self) -> None:
        self._consumer.__exit__()
