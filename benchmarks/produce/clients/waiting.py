"""Sends one record on request, and waits for its answer: WAITER BOOTSTRAP TOPIC."""

import sys
from collections.abc import Callable

WARM_UP = 100
VALUE = b"x" * 100


def grete(bootstrap: str, topic: str) -> Callable[[], object]:
    from grete.client import Producer

    producer = Producer({"bootstrap.servers": bootstrap})
    return lambda: producer.produce_sync(topic, VALUE, partition=0)


def confluent_flush(bootstrap: str, topic: str) -> Callable[[], object]:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send() -> None:
        producer.produce(topic, VALUE, partition=0)
        if producer.flush():
            raise SystemExit("flush ended with records in the queue")

    return send


def confluent_poll(bootstrap: str, topic: str) -> Callable[[], object]:
    import confluent_kafka

    producer = confluent_kafka.Producer({"bootstrap.servers": bootstrap, "enable.idempotence": True})

    def send() -> None:
        reports: list[object] = []
        producer.produce(topic, VALUE, partition=0, on_delivery=lambda error, _: reports.append(error))
        while not reports:
            producer.poll(1.0)

    return send


def main() -> None:
    waiter, bootstrap, topic = sys.argv[1:]
    makers = {"grete": grete, "confluent-flush": confluent_flush, "confluent-poll": confluent_poll}
    send = makers[waiter](bootstrap, topic)
    for _ in range(WARM_UP):
        send()
    print("ready", flush=True)
    sys.stdin.readline()
    print("sending", flush=True)
    send()
    print("acknowledged", flush=True)


if __name__ == "__main__":
    main()
