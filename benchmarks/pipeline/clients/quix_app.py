"""Quix Streams: a dataframe from topic to topic, with `json` (its own) or `msgspec` serializers.

At least once; exactly once with a style that ends with `+eos`.
"""

from __future__ import annotations

import sys
import tempfile
from typing import Any

import msgspec
from quixstreams import Application

from benchmarks.pipeline.records import INVOICES, ORDERS, Order, invoice

decode, encode = msgspec.json.Decoder(Order).decode, msgspec.json.Encoder().encode


def with_json(order: dict[str, Any]) -> dict[str, Any]:
    return {"order": order["id"], "customer": order["customer"], "total": order["amount"] * 119 // 100}


def with_msgspec(value: bytes) -> bytes:
    return encode(invoice(decode(value)))


def main() -> None:
    bootstrap, whole = sys.argv[1:]
    style, _, guarantee = whole.partition("+")
    transactions = guarantee == "eos"
    convert, form = {"json": (with_json, "json"), "msgspec": (with_msgspec, "bytes")}[style]
    app = Application(
        broker_address=bootstrap,
        consumer_group=f"quix-{style}",
        auto_offset_reset="earliest",
        auto_create_topics=False,
        loglevel="WARNING",
        state_dir=tempfile.mkdtemp(),
        # As much as the other loops flush and commit at once.
        commit_every=10_000,
        commit_interval=0.1 if transactions else 5.0,
        processing_guarantee="exactly-once" if transactions else "at-least-once",
    )
    orders = app.topic(ORDERS, key_deserializer="bytes", value_deserializer=form)
    invoices = app.topic(INVOICES, key_serializer="bytes", value_serializer=form)
    app.dataframe(orders).apply(convert).to_topic(invoices)
    app.run()


if __name__ == "__main__":
    main()
