"""Endpoint that places orders."""

import functools
import json

from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_POST

from grete.client import Producer


@functools.cache
def producer() -> Producer:
    """Returns the producer of this process. Servers fork their workers before the first request, which opens it."""
    return Producer(settings.GRETE["kafka"])


@require_POST  # type: ignore[untyped-decorator]
def place(request: HttpRequest, customer: str) -> JsonResponse:
    """Accepts an order when the broker has it."""
    value = json.dumps({"customer": customer, "amount": int(request.POST["amount"])}).encode()
    delivery = producer().produce_sync("orders", value, key=customer.encode())
    return JsonResponse({"offset": delivery.offset}, status=202)
