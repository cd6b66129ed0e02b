"""A web service that writes orders, and reads them back from Kafka to keep what each customer has spent.

The lifespan of FastAPI starts the App before the first request, and stops it after the last one: one process, one event
loop, one producer.
"""

from collections import Counter
from contextlib import suppress
from typing import Annotated

from fastapi import Depends, FastAPI, HTTPException, Response
from pydantic import BaseModel, PositiveInt

import grete
import grete.asgi
from grete.client import Producer

app = grete.App("spending")


class Order(BaseModel):
    """Body of a request, and value of a record."""

    id: str
    amount: PositiveInt


class Receipt(BaseModel):
    """Record that each order leads to."""

    order: str
    spent: int


orders = app.topic("orders", key=str, value=Order)
receipts = app.topic("receipts", key=str, value=Receipt)


@app.on_startup
async def open_totals() -> None:
    app.state.spent = Counter[str]()


@app.consumer(orders, publish=receipts, retry=grete.Retry(attempts=3), dead_letter="orders.dlq")
async def book(order: Order, customer: grete.Key[str]) -> Receipt:
    """Counts an order once it is in Kafka. The orders of a customer are in one partition, so they come in order."""
    app.state.spent[customer] += order.amount
    return Receipt(order=order.id, spent=app.state.spent[customer])


api = FastAPI(title="Spending", lifespan=grete.asgi.lifespan(app))
Kafka = Annotated[Producer, Depends(grete.asgi.producer(app))]


@api.post("/customers/{customer}/orders", status_code=202)
async def place(customer: str, order: Order, kafka: Kafka) -> dict[str, int | None]:
    """Accepts an order when the broker has it. Without a broker the client gets 503 and may try again."""
    try:
        delivery = await kafka.send(orders, order, key=customer)
    except (grete.DeliveryError, grete.TimeoutError) as error:
        raise HTTPException(503, str(error)) from error
    return {"partition": delivery.partition, "offset": delivery.offset}


@api.get("/customers/{customer}")
async def spent(customer: str) -> dict[str, int]:
    return {"spent": app.state.spent[customer]}


@api.get("/ready")
async def ready() -> Response:
    """Fails until the App has its partitions, for a load balancer."""
    lanes = []
    with suppress(grete.GreteError):
        lanes = app.statistics()["lanes"]
    return Response(status_code=200 if lanes else 503)
