"""Tables that the handlers write."""

from django.db import models


class Invoice(models.Model):  # type: ignore[misc]
    """An order that was charged."""

    customer = models.CharField(max_length=80)
    amount = models.IntegerField()
