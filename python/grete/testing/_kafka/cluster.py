"""Interface to the brokers of one test, embedded or not."""

import abc
from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from grete.testing._records import Record

# `client.id` of the clients of a test itself. Faults pass them by.
CLIENT_ID = "grete-testing"


class Cluster(abc.ABC):
    """Brokers of one test."""

    bootstrap_servers: str
    # Settings that the clients of Apps must have on these brokers.
    client_settings: ClassVar[Mapping[str, Any]] = {}

    @abc.abstractmethod
    def create_topics(self, topics: Mapping[str, int]) -> None:
        """Creates those of the topics that do not exist, with their numbers of partitions."""

    @abc.abstractmethod
    def topics(self) -> dict[str, int]:
        """Returns the topics with their numbers of partitions."""

    @abc.abstractmethod
    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        """Returns the end offset of each partition. Topics that do not exist have none."""

    @abc.abstractmethod
    def records(self, topic: str) -> list[Record]:
        """Returns all records of a topic, by partition. A topic that does not exist has none."""

    @abc.abstractmethod
    def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Returns the committed offset of each (topic, partition)."""

    @abc.abstractmethod
    def release_group(self, group: str) -> None:
        """Forgets a group at the end of the test."""

    @abc.abstractmethod
    def on_unknown_topic(self, topic: str) -> None:
        """Creates a topic that an App writes to and that does not exist yet."""

    @abc.abstractmethod
    def close(self) -> None:
        """Removes what the test has left."""
