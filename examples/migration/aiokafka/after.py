"""Orders in, invoices out, with Grete: `grete run examples.migration.aiokafka.after:app`."""

import asyncio
from typing import TypedDict

import grete


class Order(TypedDict):
    id: str
    amount: int


class Invoice(TypedDict):
    order: str
    total: int


app = grete.App("billing")


async def tax(amount: int) -> int:
    """Stands for a service that is asked over the network."""
    await asyncio.sleep(0.01)
    return amount * 19 // 100


@app.consumer(
    "orders",
    publish="invoices",
    concurrency="key",  # orders of different customers wait for the service side by side
    retry=grete.Retry(attempts=3, backoff="200ms..400ms"),
    dead_letter="orders.dlq",
)
async def charge(order: Order) -> Invoice:
    if order["amount"] <= 0:
        raise ValueError(f"amount {order['amount']}")
    return {"order": order["id"], "total": order["amount"] + await tax(order["amount"])}
