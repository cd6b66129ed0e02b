"""Topics, offsets and groups of a test cluster, asked through confluent-kafka: a foreign client as the judge."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import aiokafka
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.errors import KafkaError
from confluent_kafka import Consumer, KafkaException, TopicPartition
from confluent_kafka.admin import (  # type: ignore[attr-defined]
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConsumerGroupDescription,
    NewTopic,
    OffsetSpec,
    ResourceType,
    TopicMetadata,
)

from .waiting import eventually

# Seconds for all tries of a question, and for one: the broker that is asked may hang.
TIMEOUT = 60.0
ONE_TRY = 5.0
T = TypeVar("T")
# librdkafka writes each refused connection to stderr, and brokers of tests are away often; errors are raised anyway.
QUIET: dict[str, str | int] = {"log_level": 1}
EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class TopicAdmin:
    """Synchronous calls; each waits for its answer."""

    def __init__(self, bootstrap_servers: str) -> None:
        self._settings: dict[str, str | int | float | bool] = {"bootstrap.servers": bootstrap_servers, **QUIET}
        self._client = AdminClient(self._settings)
        self._old: list[AdminClient] = []

    def create_topic(self, name: str, partitions: int, replication: int, config: Mapping[str, object] | None) -> None:
        settings = {key: str(value) for key, value in (config or {}).items()}
        topic = NewTopic(name, num_partitions=partitions, replication_factor=replication, config=settings)
        self._client.create_topics([topic], operation_timeout=TIMEOUT)[name].result(TIMEOUT)
        eventually(lambda: len(self.leaders(name)) == partitions, TIMEOUT, f"a leader for each partition of {name}")

    def delete_topic(self, name: str) -> None:
        self._client.delete_topics([name], operation_timeout=TIMEOUT)[name].result(TIMEOUT)

    def alter_topic(self, name: str, config: Mapping[str, object]) -> None:
        """Set a topic's settings; None: the default again. Brokers go by them a moment later."""
        operations = AlterConfigOpType
        entries = [
            ConfigEntry(key, None if value is None else str(value), incremental_operation=operation)
            for key, value in config.items()
            for operation in [operations.DELETE if value is None else operations.SET]
        ]
        resource = ConfigResource(ResourceType.TOPIC, name, incremental_configs=entries)
        self._client.incremental_alter_configs([resource], request_timeout=ONE_TRY)[resource].result(TIMEOUT)

    def leaders(self, topic: str) -> dict[int, int]:
        """{partition: node id} of the partitions that have a leader."""
        metadata = self._metadata(topic)
        return {index: partition.leader for index, partition in metadata.partitions.items() if partition.leader >= 0}

    def preferred_leaders(self, topic: str) -> dict[int, int]:
        """{partition: node id of its first replica}."""
        metadata = self._metadata(topic)
        return {index: partition.replicas[0] for index, partition in metadata.partitions.items()}

    def in_sync(self, topic: str) -> int:
        """The fewest in-sync replicas that any of its partitions has; 0 without the topic."""
        metadata = self._metadata(topic)
        return min((len(partition.isrs) for partition in metadata.partitions.values()), default=0)

    def partitions(self, topic: str) -> list[int]:
        return sorted(self._metadata(topic).partitions)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """{partition: high watermark}."""
        return self._offsets(topic, LATEST)

    def start_offsets(self, topic: str) -> dict[int, int]:
        """{partition: log start offset}."""
        return self._offsets(topic, EARLIEST)

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """The group's committed offsets, those it has.

        Asked by a consumer that does not join: librdkafka 2.16's admin client crashes on the error NOT_COORDINATOR.
        """
        everything = self._patiently(lambda: self._client.list_topics(timeout=ONE_TRY).topics)
        asked = [
            TopicPartition(name, index)
            for name, topic in everything.items()
            if not name.startswith("__")
            for index in topic.partitions
        ]
        return {(row.topic, row.partition): row.offset for row in self._stored(group, asked) if row.offset >= 0}

    def stored(self, group: str, topic: str, partition: int = 0) -> tuple[int, str]:
        """The group's committed offset in a partition, negative if there is none, and the metadata beside it.

        Asked through aiokafka: confluent-kafka reads metadata up to a NUL that was never written, and rubbish with it.
        """
        at = aiokafka.TopicPartition(topic, partition)

        async def ask() -> tuple[int, str]:
            servers = str(self._settings["bootstrap.servers"])
            admin = AIOKafkaAdminClient(bootstrap_servers=servers, request_timeout_ms=int(ONE_TRY * 1000))
            try:
                await admin.start()
                found = await admin.list_consumer_group_offsets(group, partitions=[at])
            except KafkaError as error:
                raise KafkaException(str(error)) from error
            finally:
                await admin.close()
            return (found[at].offset, found[at].metadata) if at in found else (-1, "")

        return self._patiently(lambda: asyncio.run(ask()))

    def _stored(self, group: str, asked: list[TopicPartition]) -> list[TopicPartition]:
        def ask() -> list[TopicPartition]:
            consumer = Consumer({**self._settings, "group.id": group})
            try:
                answer: list[TopicPartition] = consumer.committed(asked, timeout=ONE_TRY)
            finally:
                consumer.close()
            for row in answer:
                if row.error is not None:
                    raise KafkaException(row.error)
            return answer

        return self._patiently(ask)

    def lag(self, group: str, topics: Iterable[str]) -> int:
        """Records that the group has not committed, over whole topics."""
        committed = self.committed(group)
        return sum(
            end - committed.get((topic, partition), 0)
            for topic in topics
            for partition, end in self.end_offsets(topic).items()
        )

    def members(self, group: str) -> dict[str, set[tuple[str, int]]]:
        """{member id: its partitions} as the coordinator sees it."""
        return {
            member.member_id: {(row.topic, row.partition) for row in member.assignment.topic_partitions}
            for member in self._describe(group).members
        }

    def group_state(self, group: str) -> str:
        """STABLE, EMPTY, DEAD, PREPARING_REBALANCING ..."""
        return str(self._describe(group).state.name)

    def coordinator(self, group: str) -> int:
        """The node that coordinates the group."""
        return int(self._describe(group).coordinator.id)

    def _metadata(self, topic: str) -> TopicMetadata:
        return self._patiently(lambda: self._client.list_topics(topic, timeout=ONE_TRY).topics[topic])

    def _describe(self, group: str) -> ConsumerGroupDescription:
        def ask() -> ConsumerGroupDescription:
            found: ConsumerGroupDescription = self._client.describe_consumer_groups([group], request_timeout=ONE_TRY)[
                group
            ].result()
            return found

        return self._patiently(ask)

    def _offsets(self, topic: str, spec: OffsetSpec) -> dict[int, int]:
        asked = {TopicPartition(topic, partition): spec for partition in self.partitions(topic)}

        def ask() -> dict[int, int]:
            answers = self._client.list_offsets(asked, request_timeout=ONE_TRY)
            return {row.partition: future.result().offset for row, future in answers.items()}

        return self._patiently(ask)

    def _patiently(self, ask: Callable[[], T]) -> T:
        """Asks again after an error: while leaders and coordinators are on their way, librdkafka reports many kinds."""
        answers: list[T] = []
        errors: list[str] = []

        def answered() -> bool:
            try:
                answers.append(ask())
            except KafkaException as error:
                errors.append(str(error))
                # An old client may keep for minutes that a partition has no leader. It is kept, too: librdkafka
                # crashes when a client is dropped that still has a question under way.
                self._old.append(self._client)
                self._client = AdminClient(self._settings)
            return bool(answers)

        eventually(answered, TIMEOUT, lambda: f"an answer of the cluster: {errors[-1:]}")
        return answers[0]
