"""Orders, and what becomes of them."""

from __future__ import annotations

import msgspec

ORDERS, INVOICES = "orders", "invoices"
KEYS = 1000
BATCH = 10_000


class Order(msgspec.Struct):
    """Value of `orders`."""

    id: str
    customer: str
    amount: int
    currency: str


class Invoice(msgspec.Struct):
    """Value of `invoices`."""

    order: str
    customer: str
    total: int


def invoice(order: Order) -> Invoice:
    """Computes an invoice."""
    return Invoice(order.id, order.customer, order.amount * 119 // 100)


def order_values(first: int, count: int) -> tuple[list[bytes], list[bytes]]:
    """Returns encoded orders and their keys."""
    encode = msgspec.json.Encoder().encode
    numbers = range(first, first + count)
    keys = [b"customer-%04d" % (number % KEYS) for number in numbers]
    values = [
        encode(Order(f"order-{number:09}", key.decode(), number % 10_000, "EUR"))
        for number, key in zip(numbers, keys, strict=True)
    ]
    return values, keys
