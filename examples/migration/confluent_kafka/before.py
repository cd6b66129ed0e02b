"""Orders in, invoices out, with confluent-kafka: `python -m examples.migration.confluent_kafka.before`."""

import json
import os
import signal
import time

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer

SERVERS = {"bootstrap.servers": os.environ.get("KAFKA", "localhost:9092")}
consumer = Consumer(
    {**SERVERS, "group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"},
)
producer = Producer({**SERVERS, "enable.idempotence": True})
failed: list[KafkaError] = []
stopping = False


def stop(*_: object) -> None:
    global stopping
    stopping = True


def on_delivery(error: KafkaError | None, _message: Message) -> None:
    if error is not None:
        failed.append(error)


def charge(order: dict[str, object]) -> dict[str, object]:
    amount = int(str(order["amount"]))
    if amount <= 0:
        raise ValueError(f"amount {amount}")
    return {"order": order["id"], "total": amount * 119 // 100}


def process(message: Message) -> None:
    value = message.value() or b""
    for attempt in (1, 2, 3):
        try:
            invoice = json.dumps(charge(json.loads(value))).encode()
        except Exception as error:
            if attempt < 3:
                time.sleep(0.1 * 2**attempt)  # all partitions wait
                continue
            headers: dict[str, str | bytes | None] = {"error": type(error).__name__}
            producer.produce("orders.dlq", value, message.key(), headers=headers, on_delivery=on_delivery)
        else:
            producer.produce("invoices", invoice, message.key(), on_delivery=on_delivery)
            return


for number in (signal.SIGINT, signal.SIGTERM):
    signal.signal(number, stop)
consumer.subscribe(["orders"])
try:
    while not stopping:
        batch = consumer.consume(500, timeout=0.5)
        for message in batch:
            if (error := message.error()) is not None:
                raise KafkaException(error)
            process(message)
        if batch:
            producer.flush()
            if failed:
                raise KafkaException(failed[0])  # nothing is committed: the batch comes again
            consumer.commit(asynchronous=False)
finally:
    consumer.close()
