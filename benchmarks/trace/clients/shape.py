"""Trace that all clients write: so many spans, the first of them the parent of the others, five tags each."""

from __future__ import annotations

SERVICE = "orders"
ROOT = "kafka.consume"
CHILD = "order.book"
RESOURCE = "Orders.consume"
TYPE = "worker"
TAGS = {
    "messaging.system": "kafka",
    "messaging.destination.name": "orders",
    "order.customer": "c-00012345",
    "order.state": "booked",
    "cloud.region": "eu-central-1",
}
