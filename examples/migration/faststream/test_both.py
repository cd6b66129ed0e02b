"""Tests of both programs without a broker."""

import asyncio

from faststream.kafka import TestKafkaBroker

from examples.migration.faststream import after, before
from grete import testing


def test_with_faststream() -> None:
    async def run() -> None:
        async with TestKafkaBroker(before.broker) as broker:
            await broker.publish({"id": "a", "amount": 100}, "orders", key=b"ann")
            before.invoices.mock.assert_called_once_with({"order": "a", "total": 119})

    asyncio.run(run())


def test_with_grete() -> None:
    orders = [after.Order(id="a", amount=100), after.Order(id="b", amount=0)]
    run = testing.consume(after.app, "orders", orders, key="ann")
    assert run.published == [after.Invoice(order="a", total=119)]
    assert [letter.error for letter in run.dead] == ["ValueError"]
