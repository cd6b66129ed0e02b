"""Embedded brokers of one test."""

from collections.abc import Iterable, Mapping

from grete.broker import Broker
from grete.testing._kafka.cluster import Cluster
from grete.testing._records import Record

# Members hear soon of a change of their group.
_SETTINGS = {"group.consumer.heartbeat.interval.ms": 100, "group.consumer.min.heartbeat.interval.ms": 100}


class EmbeddedCluster(Cluster):
    """Brokers in this process that live as long as the test: no other test sees its topics and faults."""

    def __init__(self, brokers: int = 1) -> None:
        self.broker = Broker(brokers=brokers, settings=_SETTINGS).start()
        self.bootstrap_servers = self.broker.bootstrap_servers

    def create_topics(self, topics: Mapping[str, int]) -> None:
        present = self.broker.topics()
        for name, partitions in topics.items():
            if name not in present:
                self.broker.create_topic(name, partitions)

    def topics(self) -> dict[str, int]:
        return self.broker.topics()

    def ends(self, topics: Iterable[str]) -> dict[tuple[str, int], int]:
        present = self.broker.topics()
        return {
            (topic, partition): end
            for topic in topics
            if topic in present
            for partition, (_, end) in enumerate(self.broker.offsets(topic))
        }

    def records(self, topic: str) -> list[Record]:
        if topic not in self.broker.topics():
            return []
        return [
            Record(found.value, found.key, tuple(found.headers), found.timestamp, topic, found.partition, found.offset)
            for found in self.broker.records(topic)
        ]

    def committed(self, group: str) -> dict[tuple[str, int], int]:
        return self.broker.committed(group)

    def release_group(self, group: str) -> None:
        pass  # the group ends with the brokers

    def on_unknown_topic(self, topic: str) -> None:
        pass  # the brokers have created the topic

    def close(self) -> None:
        self.broker.stop()
