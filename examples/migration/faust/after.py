"""Orders in, invoices out, with Grete: `grete run examples.migration.faust.after:app`."""

from dataclasses import dataclass

import grete


@dataclass
class Order:
    id: str
    amount: int


@dataclass
class Invoice:
    order: str
    total: int


app = grete.App("billing")
orders = app.topic("orders", key=bytes, value=Order)
invoices = app.topic("invoices", key=bytes, value=Invoice)


@app.consumer(
    orders,
    publish=invoices,
    retry=grete.Retry(attempts=3, backoff="200ms..400ms"),
    dead_letter="orders.dlq",
)
async def bill(order: Order) -> Invoice:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    return Invoice(order=order.id, total=order.amount * 119 // 100)
