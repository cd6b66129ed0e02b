"""`python -m tests.kafka [--version V] [--nodes N]`: a cluster to play with, until Ctrl-C."""

from __future__ import annotations

import argparse
import signal

from .apache import ApacheCluster
from .jars import VERSIONS, KafkaJars


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m tests.kafka",
        description="Run Apache Kafka on loopback until Ctrl-C.",
    )
    parser.add_argument("--version", help=f"a Kafka release, {', '.join(VERSIONS)} for instance")
    parser.add_argument("--nodes", type=int, default=1)
    parser.add_argument("--topic", action="append", default=[], metavar="NAME[:PARTITIONS]", help="create a topic")
    parser.add_argument("--jars", action="store_true", help="only bring the jars and say where they are")
    arguments = parser.parse_args()
    if arguments.jars:
        print(KafkaJars(arguments.version).ensure().libs)
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with ApacheCluster(arguments.version, arguments.nodes) as kafka:
        for topic in arguments.topic:
            name, _, partitions = topic.partition(":")
            kafka.create_topic(name, int(partitions or 1))
        print(f"Kafka {kafka.version} at {kafka.bootstrap_servers}; Ctrl-C ends it", flush=True)
        try:
            signal.pause()
        except KeyboardInterrupt:
            print("ending")


if __name__ == "__main__":
    main()
