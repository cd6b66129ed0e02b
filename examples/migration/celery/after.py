"""Orders in, invoices out, with Grete: `grete run examples.migration.celery.after:app`."""

from typing import TypedDict

import grete


class Order(TypedDict):
    id: str
    amount: int


class Invoice(TypedDict):
    order: str
    total: int


app = grete.App("billing", workers=2)
orders = app.topic("orders", key=str, value=Order)
invoices = app.topic("invoices", key=str, value=Invoice)


@app.consumer(
    orders,
    publish=invoices,
    concurrency="unordered",  # like tasks; "key" keeps the orders of a customer in order
    retry=grete.Retry(attempts=3, backoff="1s..2s"),
    dead_letter="orders.dlq",
)
def charge(order: Order) -> Invoice:
    if order["amount"] <= 0:
        raise ValueError(f"amount {order['amount']}")
    return {"order": order["id"], "total": order["amount"] * 119 // 100}


def place(customer: str, order: Order) -> None:
    """Takes the place of `charge.delay(order)`; for a process that runs the App."""
    app.producer.produce_sync(orders, order, key=customer)
