"""Orders in, invoices out, with Faust: `faust -A examples.migration.faust.before worker`."""

import asyncio
import os
from typing import Any

import faust

app = faust.App(
    "billing",
    broker="kafka://" + os.environ.get("KAFKA", "localhost:9092"),
    topic_disable_leader=True,
    web_enabled=False,
)


class Order(faust.Record, include_metadata=False):
    id: str
    amount: int


class Invoice(faust.Record, include_metadata=False):
    order: str
    total: int


orders = app.topic("orders", key_type=bytes, value_type=Order)
invoices = app.topic("invoices", key_type=bytes, value_type=Invoice)
dead_letters = app.topic("orders.dlq", key_type=bytes, value_type=bytes)


def charge(order: Order) -> Invoice:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    return Invoice(order=order.id, total=order.amount * 119 // 100)


@app.agent(orders)
async def bill(stream: Any) -> None:
    async for event in stream.events():
        for attempt in (1, 2, 3):
            try:
                invoice = charge(event.value)
            except Exception as error:
                if attempt < 3:
                    await asyncio.sleep(0.1 * 2**attempt)  # the agent waits, with all partitions
                    continue
                headers = {"error": type(error).__name__.encode()}
                await dead_letters.send(key=event.key, value=event.message.value, headers=headers)
            else:
                await invoices.send(key=event.key, value=invoice)
                break
