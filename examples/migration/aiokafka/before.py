"""Orders in, invoices out, with aiokafka: `python -m examples.migration.aiokafka.before`."""

import asyncio
import json
import os
import signal
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

SERVERS = os.environ.get("KAFKA", "localhost:9092")


async def tax(amount: int) -> int:
    """Stands for a service that is asked over the network."""
    await asyncio.sleep(0.01)
    return amount * 19 // 100


async def charge(order: dict[str, Any]) -> dict[str, Any]:
    if order["amount"] <= 0:
        raise ValueError(f"amount {order['amount']}")
    return {"order": order["id"], "total": order["amount"] + await tax(order["amount"])}


async def process(message: Any, producer: AIOKafkaProducer) -> None:
    for attempt in (1, 2, 3):
        try:
            invoice = json.dumps(await charge(json.loads(message.value))).encode()
        except Exception as error:
            if attempt < 3:
                await asyncio.sleep(0.1 * 2**attempt)  # the other partitions wait, too
                continue
            headers = [("error", type(error).__name__.encode())]
            await producer.send_and_wait("orders.dlq", message.value, message.key, headers=headers)
        else:
            await producer.send_and_wait("invoices", invoice, message.key)
            return


async def main() -> None:
    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    consumer = AIOKafkaConsumer(
        "orders",
        bootstrap_servers=SERVERS,
        group_id="billing",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    async with AIOKafkaProducer(bootstrap_servers=SERVERS, enable_idempotence=True) as producer, consumer:
        while not stopping.is_set():
            for partition, messages in (await consumer.getmany(timeout_ms=500)).items():
                for message in messages:
                    await process(message, producer)
                await consumer.commit({partition: messages[-1].offset + 1})


asyncio.run(main())
