"""Orders in, invoices out, with Grete: `grete run examples.migration.faststream.after:app`."""

from pydantic import BaseModel

import grete


class Order(BaseModel):
    id: str
    amount: int


class Invoice(BaseModel):
    order: str
    total: int


app = grete.App("billing")


@app.consumer(
    "orders",
    publish="invoices",
    retry=grete.Retry(attempts=3, backoff="200ms..400ms"),
    dead_letter="orders.dlq",
)
async def charge(order: Order) -> Invoice:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    return Invoice(order=order.id, total=order.amount * 119 // 100)
