"""Topics: to be made, and as brokers have them."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

Value = str | int | float | bool
"""What a setting of a topic can be given as."""


@dataclass(frozen=True, slots=True)
class NewTopic:
    """A topic to be made. -1: as the broker's `num.partitions` and `default.replication.factor` say.

    `assignment`: instead of the two numbers, the brokers that keep each partition, the preferred leader first.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, Value] = field(default_factory=dict)
    assignment: Sequence[Sequence[int]] = ()

    def told(self) -> tuple[str, int, int, list[list[int]], list[tuple[str, str]]]:
        """As the core takes it."""
        assignment = [list(brokers) for brokers in self.assignment]
        return self.name, self.partitions, self.replication_factor, assignment, texts(self.config)


@dataclass(frozen=True, slots=True)
class PartitionDescription:
    """A partition: who leads it (None: nobody just now), who keeps it, whose copy is complete."""

    id: int
    leader: int | None
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class TopicDescription:
    """A topic as one broker has it. `id` as Kafka's own tools print it; None from brokers that have none."""

    name: str
    id: str | None
    internal: bool
    partitions: tuple[PartitionDescription, ...]


def texts(config: Mapping[str, Value]) -> list[tuple[str, str]]:
    """Settings as brokers take them."""
    return [(name, str(value).lower() if isinstance(value, bool) else str(value)) for name, value in config.items()]


def topic_of(
    told: tuple[str, int, bool, list[tuple[int, int | None, int, list[int], list[int]]]],
) -> TopicDescription:
    """From what the core tells."""
    name, number, internal, partitions = told
    text = base64.urlsafe_b64encode(number.to_bytes(16, "big")).decode().rstrip("=")
    return TopicDescription(
        name=name,
        id=text if number else None,
        internal=internal,
        partitions=tuple(
            PartitionDescription(partition, leader, epoch, tuple(replicas), tuple(isr))
            for partition, leader, epoch, replicas, isr in partitions
        ),
    )
