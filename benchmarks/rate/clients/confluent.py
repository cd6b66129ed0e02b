"""confluent-kafka: poll(), or consume(1000, 0.1) with `mode=consume`."""

import confluent_kafka

from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import Handler, Windows


def main() -> None:
    arguments = RateArguments.parse()
    mode = arguments.settings.pop("mode")
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": "bench-rate",
            "enable.auto.commit": False,
            **arguments.settings,
        }
    )
    consumer.assign([confluent_kafka.TopicPartition(arguments.topic, 0, 0)])

    windows = Windows(arguments)
    if mode == "poll":
        while windows.running():
            message = consumer.poll(0.1)
            if message is not None:
                handle(windows.handler, message)
    else:
        while windows.running():
            for message in consumer.consume(1000, 0.1):
                handle(windows.handler, message)
    windows.report(f"confluent-kafka {confluent_kafka.__version__}")
    consumer.close()


def handle(handler: Handler, message: confluent_kafka.Message) -> None:
    value = message.value()
    if value is None:
        raise SystemExit(message.error())
    handler(value)


if __name__ == "__main__":
    main()
