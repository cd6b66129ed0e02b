"""Orders in, invoices out, with an endpoint: `uvicorn examples.orders_to_invoices.service:api`.

Without the endpoint: `grete run examples.orders_to_invoices.service:app`.
"""

from dataclasses import dataclass

from fastapi import FastAPI

import grete
import grete.asgi


@dataclass
class Order:
    id: str
    amount: int


@dataclass
class Invoice:
    order: str
    total: int


app = grete.App("billing", probes=9100)  # /metrics, /livez and /readyz
orders = app.topic("orders", key=str, value=Order)
invoices = app.topic("invoices", key=str, value=Invoice)


@app.consumer(orders, publish=invoices, concurrency="key", retry=grete.Retry(attempts=3), dead_letter="orders.dlq")
def charge(order: Order) -> Invoice:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    return Invoice(order.id, order.amount * 119 // 100)


api = FastAPI(lifespan=grete.asgi.lifespan(app))


@api.post("/customers/{customer}/orders", status_code=202)
async def place(customer: str, order: Order) -> None:
    await app.producer.send(orders, order, key=customer)
