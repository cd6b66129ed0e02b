"""A web service of FastAPI that writes orders to a topic, and shows what its handlers have made of them.

One process, one event loop. Records are handled as long as the server answers (it needs `pip install fastapi uvicorn`):

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create orders --partitions 2
    uvicorn examples.web_fastapi:api
    curl -X POST localhost:8000/orders -H 'content-type: application/json' -d '{"customer": "ada", "amount": 3}'
    curl localhost:8000/totals
"""

import json
from collections import Counter
from typing import Annotated

from fastapi import Depends, FastAPI
from pydantic import BaseModel

import grete
import grete.asgi
from grete.client import Producer

app = grete.App("web-example")
api = FastAPI(lifespan=grete.asgi.lifespan(app))

Kafka = Annotated[Producer, Depends(grete.asgi.producer(app))]


class Order(BaseModel):
    """Body of a request, and decoded value of a record."""

    customer: str
    amount: int


@app.on_startup
async def open_totals() -> None:
    app.state.totals = Counter[str]()


@app.consumer("orders", payload=Order)
async def count(order: Order) -> None:
    app.state.totals[order.customer] += order.amount


@api.post("/orders", status_code=202)
async def order(order: Order, kafka: Kafka) -> dict[str, int | None]:
    # Returns when the broker has it: an order that was accepted is not lost.
    delivery = await kafka.send("orders", json.dumps(order.model_dump()).encode(), key=order.customer.encode())
    return {"offset": delivery.offset}


@api.get("/totals")
async def totals() -> dict[str, int]:
    return dict(app.state.totals)
