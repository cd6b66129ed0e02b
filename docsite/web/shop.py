"""App that works and fails, for pictures of `grete web`: `grete dev docsite.web.shop:app --web`."""

import random
import time

import grete

app = grete.App(
    "shop", workers=6, stall_after="5s", dead_letter_create=True, log_level="critical", shutdown_timeout="2s"
)


class PaymentError(Exception):
    """A card was refused."""


@app.consumer(
    "orders",
    payload="json",
    concurrency="key",
    publish="invoices",
    retry=grete.Retry(attempts=3, backoff="2s..20s"),
    dead_letter="orders.dlq",
)
def charge(order: dict[str, int], customer: grete.Key[str]) -> dict[str, object]:
    """Makes an invoice; some cards are refused."""
    time.sleep(random.uniform(0.001, 0.01))
    if order["amount"] % 397 == 0:
        raise PaymentError(f"card of {customer} was refused: amount {order['amount']}")
    return {"customer": customer, "total": order["amount"]}


@app.consumer("clicks", group="shop-clicks")
def count(messages: grete.Messages) -> None:
    """Counts clicks; one of them takes long."""
    for message in messages:
        if message.value == b"slow":
            wait_for_statistics()


def wait_for_statistics() -> None:
    """Hangs for ten minutes."""
    time.sleep(600)
