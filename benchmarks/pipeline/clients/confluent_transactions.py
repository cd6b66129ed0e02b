"""confluent-kafka: a loop of consume, and one transaction for each batch: `BATCH` records at most, with msgspec."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
from confluent_kafka import Consumer, Producer

from benchmarks.pipeline.records import INVOICES, ORDERS, Order, invoice

decode, encode = msgspec.json.Decoder(Order).decode, msgspec.json.Encoder().encode


def main() -> None:
    bootstrap, size = sys.argv[1:]
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"confluent-transactions-{size}",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    producer = Producer(
        {
            "bootstrap.servers": bootstrap,
            "transactional.id": f"confluent-{size}",
            "queue.buffering.max.messages": 1_000_000,
        }
    )
    producer.init_transactions()
    consumer.subscribe([ORDERS])
    while True:
        batch: list[Any] = consumer.consume(int(size), timeout=0.1)
        if not batch:
            continue
        producer.begin_transaction()
        for message in batch:
            if message.error():
                raise SystemExit(str(message.error()))
            producer.produce(INVOICES, encode(invoice(decode(message.value() or b""))), message.key())
        positions = consumer.position(consumer.assignment())
        producer.send_offsets_to_transaction(positions, consumer.consumer_group_metadata())
        producer.commit_transaction()


if __name__ == "__main__":
    main()
