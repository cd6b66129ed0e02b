"""A small App: totals per customer from a topic of JSON orders.

Run it against a broker on this machine, and give it something to do:

    grete topics create orders --partitions 8
    grete run examples.orders:app
    echo 'ada {"amount": 3}' | grete produce orders --key-separator ' '
"""

import json
import logging
from collections import Counter

import grete

app = grete.App("orders-example", kafka={"bootstrap.servers": "localhost:9092"}, workers=2)
logger = logging.getLogger("orders")


@app.consumer("orders")
class Totals(grete.Consumer):
    """One instance per partition; with the customer as key, each customer is in one partition."""

    def initialize(self) -> None:
        self.totals: Counter[str] = Counter()

    def consume(self) -> None:
        for message in self.messages:
            if message.value is None:
                continue
            customer = (message.key or b"?").decode()
            self.totals[customer] += json.loads(message.value)["amount"]
        logger.info("%s[%d]: %s", self.topic, self.partition, self.totals.most_common(3))

    def revoked(self) -> None:
        logger.info("%s[%d] goes to another member", self.topic, self.partition)


@app.consumer("clicks")
def clicks(messages: grete.Messages) -> None:
    """A function is a consumer, too."""
    logger.info("%d clicks up to offset %d", len(messages), messages.last_offset)


if __name__ == "__main__":
    logging.basicConfig(level="INFO")
    app.run()
