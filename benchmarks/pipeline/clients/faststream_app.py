"""FastStream on `aiokafka`: a subscriber that publishes with the key of its message."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from faststream import FastStream
from faststream.kafka import KafkaBroker, KafkaMessage

from benchmarks.pipeline.records import INVOICES, ORDERS


async def main() -> None:
    bootstrap, _style = sys.argv[1:]
    broker = KafkaBroker(bootstrap, logger=None)
    invoices = broker.publisher(INVOICES)

    @broker.subscriber(ORDERS, group_id="faststream", auto_offset_reset="earliest")
    async def charge(order: dict[str, Any], message: KafkaMessage) -> None:
        found = {"order": order["id"], "customer": order["customer"], "total": order["amount"] * 119 // 100}
        key = message.raw_message.key  # type: ignore[union-attr]
        await invoices.publish(found, key=key, no_confirm=True)

    await FastStream(broker, logger=None).run()


if __name__ == "__main__":
    asyncio.run(main())
