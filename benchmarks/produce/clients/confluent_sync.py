"""confluent-kafka, one record after the other: `flush()`, or with `mode=poll` until the delivery report has come."""

import confluent_kafka

from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import SyncMeter


def main() -> None:
    arguments = ProduceArguments.parse()
    mode = arguments.settings.pop("mode")
    producer = confluent_kafka.Producer({"bootstrap.servers": arguments.bootstrap, **arguments.settings})
    topic, value = arguments.topic, arguments.value
    reported = False

    def on_delivery(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        nonlocal reported
        if error is not None:
            raise SystemExit(error)
        reported = True

    def flush() -> None:
        producer.produce(topic, value, partition=0)
        if producer.flush():
            raise SystemExit("flush ended with records in the queue")

    def poll() -> None:
        nonlocal reported
        reported = False
        producer.produce(topic, value, partition=0, on_delivery=on_delivery)
        while not reported:
            producer.poll(1.0)

    meter = SyncMeter()
    meter.measure(poll if mode == "poll" else flush, arguments.warm_up, arguments.records)
    meter.report(f"confluent-kafka {confluent_kafka.__version__}")


if __name__ == "__main__":
    main()
