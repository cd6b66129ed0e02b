"""confluent-kafka, consume(10000)."""

import confluent_kafka

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter


def main() -> None:
    arguments = ConsumeArguments.parse()
    meter = Meter(arguments.records)
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": "bench-confluent",
            "enable.auto.commit": False,
            **arguments.settings,
        }
    )
    consumer.assign(
        [confluent_kafka.TopicPartition(arguments.topic, index, 0) for index in range(arguments.partitions)]
    )
    while not meter.done:
        size = 0
        messages = consumer.consume(10_000, 1.0)
        for message in messages:
            value = message.value()
            if value is None:
                raise SystemExit(message.error())
            size += len(value)
        meter.add(len(messages), size)
    meter.report(f"confluent-kafka {confluent_kafka.__version__}")
    consumer.close()


if __name__ == "__main__":
    main()
