"""The same service on Litestar: its lifespan and its dependencies (it needs `pip install litestar uvicorn`).

export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
uvicorn examples.web_litestar:api
"""

import json
from collections import Counter
from dataclasses import dataclass
from typing import Any

from litestar import Litestar, get, post
from litestar.di import NamedDependency, Provide
from litestar.params import JSONBody

import grete
import grete.asgi

app = grete.App("litestar-example")


@dataclass
class Order:
    """Body of a request, and decoded value of a record."""

    customer: str
    amount: int


@app.on_startup
async def open_totals() -> None:
    app.state.totals = Counter[str]()


@app.consumer("orders")
async def count(order: Order) -> None:
    app.state.totals[order.customer] += order.amount


@post("/orders", status_code=202)
async def order(data: JSONBody[Order], kafka: NamedDependency[Any]) -> dict[str, int | None]:
    value = json.dumps({"customer": data.customer, "amount": data.amount}).encode()
    delivery = await kafka.send("orders", value, key=data.customer.encode())
    return {"offset": delivery.offset}


@get("/totals")
async def totals() -> dict[str, int]:
    return dict(app.state.totals)


api = Litestar(
    route_handlers=[order, totals],
    lifespan=[grete.asgi.lifespan(app)],
    dependencies={"kafka": Provide(grete.asgi.producer(app))},
)
