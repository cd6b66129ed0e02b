"""Orders in, invoices out, with FastStream: `python -m examples.migration.faststream.before`."""

import asyncio
import os
from collections.abc import Awaitable, Callable
from typing import Any

from faststream import AckPolicy, BaseMiddleware, FastStream, StreamMessage
from faststream.kafka import KafkaBroker, KafkaMessage
from pydantic import BaseModel


class Order(BaseModel):
    id: str
    amount: int


class Invoice(BaseModel):
    order: str
    total: int


class RetryThenDeadLetter(BaseMiddleware):
    async def consume_scope(
        self, call_next: Callable[[StreamMessage[Any]], Awaitable[Any]], msg: StreamMessage[Any]
    ) -> Any:
        for attempt in (1, 2, 3):
            try:
                return await call_next(msg)
            except Exception as error:
                if attempt < 3:
                    await asyncio.sleep(0.1 * 2**attempt)  # the partition waits
                    continue
                headers = {"error": type(error).__name__}
                await broker.publish(msg.body, "orders.dlq", key=msg.raw_message.key, headers=headers)
        return None


broker = KafkaBroker(os.environ.get("KAFKA", "localhost:9092"), middlewares=[RetryThenDeadLetter])
app = FastStream(broker)
invoices = broker.publisher("invoices")


@broker.subscriber("orders", group_id="billing", ack_policy=AckPolicy.NACK_ON_ERROR, auto_offset_reset="earliest")
async def charge(order: Order, message: KafkaMessage) -> None:
    if order.amount <= 0:
        raise ValueError(f"amount {order.amount}")
    invoice = Invoice(order=order.id, total=order.amount * 119 // 100)
    # A returned value would have no key.
    await invoices.publish(invoice, key=message.raw_message.key)  # type: ignore[union-attr]


if __name__ == "__main__":
    asyncio.run(app.run())
