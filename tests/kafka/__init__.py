"""Apache Kafka for tests, benchmarks and the demo: real brokers on loopback, for as long as a `with`.

    with KafkaCluster() as kafka:
        kafka.create_topic("orders", partitions=8)
        fill(kafka.bootstrap_servers, "orders", 100_000, partitions=8)

Needs Java 17 and Maven on the path. `KAFKA_VERSION` chooses the release.
"""

from .cluster import KafkaCluster, failure_logs
from .jars import DEFAULT_VERSION, VERSIONS, KafkaJars, chosen_version
from .load import fill, partition_of, value_of
from .waiting import Deadline, eventually

__all__ = [
    "DEFAULT_VERSION",
    "VERSIONS",
    "Deadline",
    "KafkaCluster",
    "KafkaJars",
    "chosen_version",
    "eventually",
    "failure_logs",
    "fill",
    "partition_of",
    "value_of",
]
