"""confluent-kafka: a loop of consume, produce, flush and commit, with `json` or `msgspec`."""

from __future__ import annotations

import json
import sys
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer

from benchmarks.pipeline.records import BATCH, INVOICES, ORDERS, Order, invoice


def with_json(value: bytes) -> bytes:
    order = json.loads(value)
    found = {"order": order["id"], "customer": order["customer"], "total": order["amount"] * 119 // 100}
    return json.dumps(found).encode()


decode, encode = msgspec.json.Decoder(Order).decode, msgspec.json.Encoder().encode


def with_msgspec(value: bytes) -> bytes:
    return encode(invoice(decode(value)))


def main() -> None:
    bootstrap, style = sys.argv[1:]
    convert = {"json": with_json, "msgspec": with_msgspec}[style]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"confluent-{style}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    producer = Producer(
        {"bootstrap.servers": bootstrap, "enable.idempotence": True, "queue.buffering.max.messages": 1_000_000}
    )
    failed: list[Any] = []

    def on_delivery(error: Any, _message: Any) -> None:
        if error is not None:
            failed.append(error)

    consumer.subscribe([ORDERS])
    while True:
        batch = consumer.consume(BATCH, timeout=0.1)
        for message in batch:
            if message.error():
                raise SystemExit(str(message.error()))
            producer.produce(INVOICES, convert(message.value() or b""), message.key(), on_delivery=on_delivery)
        if batch:
            producer.flush()
            if failed:
                raise SystemExit(str(failed[0]))
            consumer.commit(asynchronous=False)


if __name__ == "__main__":
    main()
