"""Orders in, invoices out, with Grete: `grete run examples.migration.karafka.after:app`."""

import json
import logging

import grete

app = grete.App("billing")


@app.consumer(
    "orders",
    payload="json",
    retry=grete.Retry(attempts=3, backoff="1s..2s"),
    dead_letter="orders.dlq",
)
class Orders(grete.Consumer):
    def consume(self) -> None:
        for message in self.messages:
            amount = message.payload["amount"]
            if amount <= 0:
                raise ValueError(f"amount {amount}")
            invoice = {"order": message.payload["id"], "total": amount * 119 // 100}
            self.producer.produce("invoices", json.dumps(invoice).encode(), key=message.key)
            self.mark(message)

    def revoked(self) -> None:
        logging.getLogger("billing").info("the partition goes to another process")
