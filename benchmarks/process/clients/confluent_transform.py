"""confluent-kafka's usual loop: consume(10000), produce each with on_delivery, poll(0), flush, commit."""

import confluent_kafka

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings = dict(arguments.settings)
    out, group = settings.pop("out"), settings.pop("group")
    producer = confluent_kafka.Producer({"bootstrap.servers": arguments.bootstrap, "enable.idempotence": True})
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            **settings,
        }
    )

    def on_delivery(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        if error is not None:
            raise SystemExit(error)

    meter = Meter(arguments.records)
    consumer.subscribe([arguments.topic])
    while not meter.done:
        messages = consumer.consume(10_000, 0.1)
        for message in messages:
            if message.error():
                raise SystemExit(message.error())
            value = message.value()
            assert isinstance(value, bytes)
            while True:
                try:
                    producer.produce(out, value.upper(), message.key(), on_delivery=on_delivery)
                    break
                except BufferError:
                    producer.poll(0.01)
        producer.poll(0)
        if messages:
            producer.flush()
            consumer.commit(asynchronous=False)
            meter.add(len(messages), 0)
    meter.report(f"confluent-kafka {confluent_kafka.__version__}")
    consumer.close()


if __name__ == "__main__":
    main()
