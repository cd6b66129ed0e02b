"""Topics: new ones, and descriptions from brokers."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from grete.client import arguments
from grete.client.acls import AclOperation, operations_from_native

ConfigValue = str | int | float | bool
"""Types for the value of a topic's setting."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """Topic to create. -1: the broker's `num.partitions` and `default.replication.factor`.

    `assignment`: instead of the two numbers, the brokers that keep each partition, the preferred leader first.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, ConfigValue] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()

    def to_native(self) -> tuple[str, int, int, list[list[int]], list[tuple[str, str]]]:
        """Converts the topic for the core. Raises TypeError, and ValueError for numbers that no topic can have."""
        partitions = arguments.integer(self.partitions, "partitions", -1, arguments.MAX_PARTITION)
        replicas = arguments.integer(self.replication_factor, "replication_factor", -1, arguments.MAX_REPLICAS)
        assignment = [
            [arguments.integer(broker, "a broker of assignment", 0, arguments.MAX_PARTITION) for broker in brokers]
            for brokers in self.assignment
        ]
        config = arguments.settings_mapping("NewTopic", self.config, '{"retention.ms": 60000}')
        return self.name, partitions, replicas, assignment, config_texts(config)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """Partition: its leader (None: none at present), its replicas, its in-sync replicas."""

    id: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """Topic as described by one broker. `id` in the notation of Kafka's own tools; None from brokers without topic
    ids.
    """

    name: str
    id: str | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]
    operations: frozenset[AclOperation] | None = None
    """Operations that this client may do with the topic; None: the broker has not said."""


def config_texts(config: Mapping[str, ConfigValue]) -> list[tuple[str, str]]:
    """Returns settings in the text form that brokers expect."""
    return [(name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in config.items()]


def topic_from_native(
    native: tuple[str, int, bool, list[tuple[int, int | None, int, list[int], list[int]]], int],
) -> TopicDescription:
    """Converts the core's description of a topic."""
    name, number, internal, partitions, operations = native
    text = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
    return TopicDescription(
        name=name,
        id=text if number else None,
        internal=internal,
        partitions=tuple(
            PartitionDescription(partition, leader, epoch, tuple(replicas), tuple(isr))
            for partition, leader, epoch, replicas, isr in partitions
        ),
        operations=operations_from_native(operations),
    )
