"""A small App: totals per customer from a topic of JSON orders; what cannot be processed goes to a dead letter topic.

Run it against a broker, and give it something to do (it needs `pip install "grete[msgspec]"`):

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create orders --partitions 8
    grete topics create orders.dlq --partitions 1
    grete topics create clicks --partitions 2
    grete run examples.orders:app
    echo 'ada {"amount": 3}' | grete produce orders --key-separator ' '
    echo 'ada {"amount": "three"}' | grete produce orders --key-separator ' '
    grete dlq list orders.dlq
"""

import logging
from collections import Counter
from dataclasses import dataclass

import grete

app = grete.App("orders-example", workers=2)
logger = logging.getLogger("orders")


@dataclass
class Order:
    """Decoded value of a record."""

    amount: int


@app.consumer(
    "orders",
    payload=Order,
    # What does not decode now will not do so in a second: no further attempt, it is a dead letter at once.
    retry=grete.Retry(attempts=3, backoff="200ms..5s"),
    dead_letter="orders.dlq",
)
class Totals(grete.Consumer):
    """One instance per partition; with the customer as key, each customer is in one partition."""

    def initialize(self) -> None:
        self.totals: Counter[str] = Counter()

    def consume(self) -> None:
        for message in self.messages:
            order: Order | None = message.payload
            if order is not None:  # None: a tombstone
                if order.amount < 0:
                    raise grete.Reject(f"an order of {order.amount}", message=message)
                self.totals[(message.key or b"?").decode()] += order.amount
            # It is counted: if a later one of the batch fails, this one does not come again.
            self.mark(message)
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
