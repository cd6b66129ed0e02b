"""The same service with confluent-kafka: `uvicorn examples.orders_to_invoices.with_confluent:api`.

One thread polls, calls the handler, waits for the invoices of the batch, and commits. A retry holds up all partitions.
"""

import asyncio
import json
import os
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from fastapi import FastAPI, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest

SERVERS = {"bootstrap.servers": os.environ.get("KAFKA", "localhost:9092")}
Headers = dict[str, str | bytes | None]


@dataclass
class Order:
    id: str
    amount: int


@dataclass
class Invoice:
    order: str
    total: int


registry = CollectorRegistry()
records = Counter("billing_records", "records by outcome", ["outcome"], registry=registry)
seconds = Histogram("billing_seconds", "time of a record", registry=registry)
producer = Producer({**SERVERS, "enable.idempotence": True})
stopping = threading.Event()


def charge(order: Order) -> Invoice:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    return Invoice(order.id, order.amount * 119 // 100)


def produce(
    topic: str,
    value: bytes,
    key: bytes | None,
    failed: list[KafkaError],
    headers: Headers | None = None,
) -> None:
    def on_delivery(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failed.append(error)

    while True:
        try:
            producer.produce(topic, value, key, on_delivery=on_delivery, headers=headers)
            return
        except BufferError:
            producer.poll(0.1)


def process(message: Message, failed: list[KafkaError]) -> None:
    for attempt in (1, 2, 3):
        try:
            with seconds.time():
                invoice = charge(Order(**json.loads(message.value() or b"")))
            produce("invoices", json.dumps(asdict(invoice)).encode(), message.key(), failed)
            records.labels("processed").inc()
            return
        except Exception as error:
            records.labels("failed").inc()
            if attempt < 3:
                time.sleep(0.2 * 2**attempt)
                continue
            headers: Headers = {"error": type(error).__name__, "message": str(error), "topic": message.topic()}
            produce("orders.dlq", message.value() or b"", message.key(), failed, headers=headers)
            records.labels("dead_letter").inc()


def consume() -> None:
    consumer = Consumer(
        {**SERVERS, "group.id": "billing", "enable.auto.commit": False, "auto.offset.reset": "earliest"}
    )
    consumer.subscribe(["orders"])
    try:
        while not stopping.is_set():
            batch = consumer.consume(500, timeout=0.5)
            failed: list[KafkaError] = []
            for message in batch:
                if message.error():
                    raise KafkaException(message.error())
                process(message, failed)
            if batch:
                producer.flush()
                if failed:
                    raise KafkaException(failed[0])  # nothing is committed: the batch comes again after a restart
                consumer.commit(asynchronous=False)
    finally:
        consumer.close()


@asynccontextmanager
async def lifespan(_api: FastAPI) -> AsyncIterator[None]:
    thread = threading.Thread(target=consume)
    thread.start()
    yield
    stopping.set()
    await asyncio.to_thread(thread.join)


api = FastAPI(lifespan=lifespan)


@api.post("/customers/{customer}/orders", status_code=202)
def place(customer: str, order: Order) -> None:
    failed: list[KafkaError] = []
    produce("orders", json.dumps(asdict(order)).encode(), customer.encode(), failed)
    producer.flush()
    if failed:
        raise KafkaException(failed[0])


@api.get("/metrics")
def metrics() -> Response:
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")
