"""App that makes an invoice in euros of each order. `grete demo` runs this file, `grete demo --app` prints it.

An order in a currency without an exchange rate fails. After its attempts the order waits in `orders.dlq`, until
`rates.json` has the rate and `grete dlq replay orders.dlq` sends the order back.
"""

import json
from pathlib import Path

import grete

RATES = {"EUR": 1.0, "USD": 0.86, "GBP": 1.15}
# Further rates, like {"CHF": 1.07}. The file may appear and change while the App runs.
MORE_RATES = Path("rates.json")

app = grete.App("demo", kafka={"bootstrap.servers": "localhost:9092"}, workers=2)


class UnknownCurrencyError(Exception):
    """There is no exchange rate."""


def rate_of(currency: str) -> float:
    """Returns the price of one unit in euros."""
    if currency in RATES:
        return RATES[currency]
    more: dict[str, float] = json.loads(MORE_RATES.read_text()) if MORE_RATES.exists() else {}
    if currency not in more:
        raise UnknownCurrencyError(f"there is no exchange rate for {currency}")
    return more[currency]


@app.consumer(
    "orders",
    payload="json",
    concurrency="key",  # an order that waits for its next attempt holds up those of its customer, and no others
    retry=grete.Retry(attempts=3, backoff="500ms..5s", jitter=0.0),
    dead_letter="orders.dlq",
)
class Invoices(grete.Consumer):
    """Handler of the orders of some customers."""

    def consume(self) -> None:
        for message in self.messages:
            order = message.payload
            euros = order["amount"] * rate_of(order["currency"])
            invoice = {"order": order["id"], "euros": round(euros, 2)}
            # The offset of the order is committed after a broker has written the invoice.
            self.producer.produce("invoices", json.dumps(invoice).encode(), key=message.key)
            self.mark(message)
