"""Handlers. Each job finds working connections to the database, and leaves none that is broken or too old."""

from dataclasses import dataclass

import grete.django
from shop.models import Invoice

app = grete.django.App("django-shop")


@dataclass
class Order:
    """Decoded value of a record."""

    customer: str
    amount: int


@app.consumer("orders")
def charge(order: Order) -> None:
    Invoice.objects.create(customer=order.customer, amount=order.amount)


@app.consumer("refunds")
async def refund(order: Order) -> None:
    await Invoice.objects.acreate(customer=order.customer, amount=-order.amount)
