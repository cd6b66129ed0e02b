"""confluent-kafka, records one by one; with `mode=on_delivery` each with a callback."""

from typing import Any

import confluent_kafka

from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import ThroughputMeter

# The queue of delivery reports has to be emptied now and then: a call costs about as much as a produce.
POLL_EVERY = 1000


def main() -> None:
    arguments = ProduceArguments.parse()
    mode = arguments.settings.pop("mode")
    producer = confluent_kafka.Producer({"bootstrap.servers": arguments.bootstrap, **arguments.settings})
    reported = 0

    def on_delivery(error: confluent_kafka.KafkaError | None, _: confluent_kafka.Message) -> None:
        nonlocal reported
        if error is not None:
            raise SystemExit(error)
        reported += 1

    keywords: dict[str, Any] = {} if arguments.partition is None else {"partition": arguments.partition}
    if mode == "on_delivery":
        keywords["on_delivery"] = on_delivery

    def send(count: int) -> None:
        produce, poll, topic, value = producer.produce, producer.poll, arguments.topic, arguments.value
        for number in range(count):
            while True:
                try:
                    produce(topic, value, **keywords)
                    break
                except BufferError:
                    poll(0.01)
            if number % POLL_EVERY == 0:
                poll(0)
        if producer.flush():
            raise SystemExit("flush ended with records in the queue")

    send(arguments.warm_up)
    reported = 0
    meter = ThroughputMeter()
    send(arguments.records)
    meter.report(arguments.records, arguments.warm_up, f"confluent-kafka {confluent_kafka.__version__}")
    if mode == "on_delivery" and reported != arguments.records:
        raise SystemExit(f"{reported} of {arguments.records} records were reported")


if __name__ == "__main__":
    main()
