"""Test of the service, without a broker."""

from examples.orders_to_invoices.service import Invoice, Order, app, orders
from grete import testing


def test_orders_become_invoices() -> None:
    run = testing.consume(app, orders, [Order("a", 100), Order("b", 0)], key="ann")
    assert run.published == [Invoice("a", 119)]
    assert [(letter.offset, letter.error) for letter in run.dead] == [(1, "ValueError")]
