"""confluent-kafka, poll(1.0)."""

import os

import confluent_kafka


def main() -> None:
    consumer = confluent_kafka.Consumer(
        {"bootstrap.servers": os.environ["IDLE_BOOTSTRAP"], "group.id": os.environ["IDLE_GROUP"]}
    )
    consumer.subscribe([os.environ["IDLE_TOPIC"]])
    while True:
        consumer.poll(1.0)


if __name__ == "__main__":
    main()
