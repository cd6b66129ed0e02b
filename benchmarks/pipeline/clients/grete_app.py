"""Grete: `function`, `generator`, `class`, `batch`, `async`, and `forward` (records unchanged).

A style that ends with `+eos` is exactly once.
"""

from __future__ import annotations

import sys

import grete
from benchmarks.pipeline.records import INVOICES, ORDERS, Invoice, Order, invoice


def main() -> None:  # noqa: C901 (one branch for each style)
    bootstrap, whole = sys.argv[1:]
    style, _, guarantee = whole.partition("+")
    app = grete.App(
        f"pipeline-{style}",
        kafka={"bootstrap.servers": bootstrap},
        max_messages=10_000,
        exactly_once=guarantee == "eos",
    )
    orders = app.topic(ORDERS, key=str, value=Order)
    invoices = app.topic(INVOICES, key=str, value=Invoice)

    if style == "function":

        @app.consumer(orders, publish=invoices)
        def function(order: Order) -> Invoice:
            return invoice(order)

    elif style == "key":

        @app.consumer(orders, publish=invoices)
        def with_key(order: Order, key: grete.Key[str]) -> Invoice:
            return Invoice(order.id, key, order.amount * 119 // 100)

    elif style == "batch":

        @app.consumer(orders, publish=invoices)
        def batch(orders: grete.Batch[Order]) -> list[Invoice]:
            return list(map(invoice, orders))

    elif style == "class":

        @app.consumer(orders)
        class Invoices(grete.Consumer):
            def consume(self) -> None:
                self.producer.produce_many(
                    invoices.name,
                    [invoices.encode_value(invoice(order)) for order in self.messages.payloads()],
                    keys=self.messages.keys(),
                )

    elif style == "async":

        @app.consumer(orders, publish=invoices)
        async def later(order: Order) -> Invoice:
            return invoice(order)

    elif style == "forward":

        @app.consumer(orders)
        class Forward(grete.Consumer):
            def consume(self) -> None:
                self.producer.produce_many(INVOICES, self.messages)

    else:
        raise SystemExit(f"unknown style {style}")
    app.run()


if __name__ == "__main__":
    main()
