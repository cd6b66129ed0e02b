"""confluent-kafka: produce and flush of paced values, without lingering. BOOTSTRAP TOPIC PER_SECOND SECONDS."""

import confluent_kafka

from benchmarks.rate.paced import Pace


def main() -> None:
    pace = Pace.parse()
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": pace.bootstrap, "linger.ms": 0, "enable.idempotence": True, "acks": "all"}
    )

    def send(value: bytes) -> None:
        producer.produce(pace.topic, value, partition=0)
        if producer.flush():
            raise SystemExit("flush ended with records in the queue")

    pace.run(send)


if __name__ == "__main__":
    main()
