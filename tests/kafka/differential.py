"""`python -m tests.kafka.differential [--seeds N]`: Apache Kafka beside Grete's broker, the same requests to both."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
from pathlib import Path

from .apache import ApacheCluster
from .node import Node

ROOT = Path(__file__).resolve().parents[2]
# Settings of the harness that Grete's broker does not have: its defaults are Kafka's own, also the number of partitions
# that groups and transactional ids are spread over.
DROPPED = (
    "group.min.session.timeout.ms",
    "log.cleaner.backoff.ms",
    "log.initial.task.delay.ms",
    "log.retention.ms",
    "message.max.bytes",
    "min.insync.replicas",
    "offsets.topic.num.partitions",
    "replica.fetch.max.bytes",
    "transaction.state.log.num.partitions",
)
# With the whole workspace, whose features are those of the other tests: nothing is compiled again.
TEST = ["cargo", "test", "--workspace", "--test", "differential", "--", "--ignored", "--nocapture"]


# Grete's broker computes a target assignment at once, and Kafka once a second at most by default.
SETTINGS: dict[str, object] = {
    "group.consumer.assignment.interval.ms": 0,
    "group.consumer.heartbeat.interval.ms": 5000,
    "group.consumer.min.heartbeat.interval.ms": 5000,
    # Kafka keeps the states of share groups in a topic, by default on three brokers.
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 1,
}
AUTHORIZER = SETTINGS | {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
}


class DefaultCluster(ApacheCluster):
    """One broker with the settings that decide about responses at Kafka's defaults."""

    def _node_properties(self, node: Node, voters: str, data: Path) -> dict[str, str]:
        properties = super()._node_properties(node, voters, data)
        return {name: value for name, value in properties.items() if name not in DROPPED}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.kafka.differential", description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="sequences of requests to try")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--serve", action="store_true", help="only run Apache Kafka, until Ctrl-C")
    parser.add_argument("--authorizer", action="store_true", help="both brokers have ACLs")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    properties = AUTHORIZER if arguments.authorizer else SETTINGS
    with DefaultCluster(None, 1, heap="768m", properties=properties) as kafka:
        print(f"Kafka {kafka.version} at {kafka.bootstrap_servers}", flush=True)
        if arguments.serve:
            try:
                signal.pause()
            except KeyboardInterrupt:
                return 0
        environment = os.environ | {
            "KAFKA_BOOTSTRAP": kafka.bootstrap_servers,
            "KAFKA_VERSION": kafka.version,
            "GRETE_SEEDS": str(arguments.seeds),
            "GRETE_FIRST_SEED": str(arguments.first_seed),
        }
        if arguments.authorizer:
            environment["GRETE_AUTHORIZER"] = "1"
        return subprocess.run(TEST, cwd=ROOT, env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
