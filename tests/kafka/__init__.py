"""Kafka brokers for tests, benchmarks and the demo: real processes on loopback, for as long as a `with`.

    with new_cluster() as kafka:
        kafka.create_topic("orders", partitions=8)
        fill(kafka.bootstrap_servers, "orders", 100_000, partitions=8)

`pytest --kafka` chooses the broker: Grete's embedded one, or Apache Kafka (needs Java 17 and Maven on the path;
`KAFKA_VERSION` chooses the release), which benchmarks start by `ApacheCluster` always.
"""

from .apache import ApacheCluster
from .choice import Choice, choose, chosen, new_cluster
from .cluster import KafkaCluster, failure_logs
from .jars import DEFAULT_VERSION, VERSIONS, KafkaJars, chosen_version
from .load import fill, partition_of, value_of
from .waiting import Deadline, eventually

__all__ = [
    "DEFAULT_VERSION",
    "VERSIONS",
    "ApacheCluster",
    "Choice",
    "Deadline",
    "KafkaCluster",
    "KafkaJars",
    "choose",
    "chosen",
    "chosen_version",
    "eventually",
    "failure_logs",
    "fill",
    "new_cluster",
    "partition_of",
    "value_of",
]
