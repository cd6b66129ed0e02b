"""The same service with FastStream: `uvicorn examples.orders_to_invoices.with_faststream:api`.

Orders of one key stay in order because a partition is handled one record after the other. A retry holds up its whole
partition. Offsets are committed by the consumer's own timer, and a dead letter has the headers that are written here.
"""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI, Response
from faststream import AckPolicy, BaseMiddleware, StreamMessage
from faststream.kafka.fastapi import KafkaMessage, KafkaRouter
from faststream.kafka.prometheus import KafkaPrometheusMiddleware
from prometheus_client import CollectorRegistry, generate_latest
from pydantic import BaseModel


class Order(BaseModel):
    id: str
    amount: int


class Invoice(BaseModel):
    order: str
    total: int


class RetryThenDeadLetter(BaseMiddleware):
    """Three attempts with a backoff, then the dead letter topic."""

    async def consume_scope(
        self, call_next: Callable[[StreamMessage[Any]], Awaitable[Any]], msg: StreamMessage[Any]
    ) -> Any:
        for attempt in (1, 2, 3):
            try:
                return await call_next(msg)
            except Exception as error:
                if attempt < 3:
                    await asyncio.sleep(0.2 * 2**attempt)
                    continue
                headers = {"error": type(error).__name__, "message": str(error), "topic": msg.raw_message.topic}
                await router.broker.publish(msg.body, "orders.dlq", key=msg.raw_message.key, headers=headers)
        return None


registry = CollectorRegistry()
SERVERS = os.environ.get("KAFKA", "localhost:9092")
router = KafkaRouter(SERVERS, middlewares=[KafkaPrometheusMiddleware(registry=registry), RetryThenDeadLetter])
invoices = router.publisher("invoices")


@router.subscriber("orders", group_id="billing", ack_policy=AckPolicy.NACK_ON_ERROR, auto_offset_reset="earliest")
async def charge(order: Order, message: KafkaMessage) -> None:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    # A returned value has no key of its own: the publisher is called instead.
    invoice = Invoice(order=order.id, total=order.amount * 119 // 100)
    await invoices.publish(invoice, key=message.raw_message.key)  # type: ignore[union-attr]


api = FastAPI()
api.include_router(router)


@api.post("/customers/{customer}/orders", status_code=202)
async def place(customer: str, order: Order) -> None:
    await router.broker.publish(order, "orders", key=customer.encode())


@api.get("/metrics")
async def metrics() -> Response:
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")
