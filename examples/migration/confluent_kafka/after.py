"""Orders in, invoices out, with Grete: `grete run examples.migration.confluent_kafka.after:app`."""

from typing import TypedDict

import grete


class Order(TypedDict):
    id: str
    amount: int


class Invoice(TypedDict):
    order: str
    total: int


app = grete.App("billing")


@app.consumer(
    "orders",
    publish="invoices",
    retry=grete.Retry(attempts=3, backoff="200ms..400ms"),
    dead_letter="orders.dlq",
)
def charge(order: Order) -> Invoice:
    if order["amount"] <= 0:
        raise ValueError(f"amount {order['amount']}")
    return {"order": order["id"], "total": order["amount"] * 119 // 100}
