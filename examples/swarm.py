"""A handler that computes, in several processes that share what was loaded once.

Run it against a broker, and watch it:

    export GRETE_KAFKA_BOOTSTRAP_SERVERS=localhost:9092
    grete topics create baskets --partitions 8
    grete swarm examples.swarm:app --nodes 2
    echo 'ada {"items": [1, 2, 3]}' | grete produce baskets --key-separator ' '
    grete ps
    grete info --swarm

`grete run examples.swarm:app` does the same in one process.
"""

import logging
import random
from array import array
from dataclasses import dataclass

import grete

ITEMS = 1_000_000

app = grete.App(
    "swarm-example",
    workers=2,
    # A call that takes longer has hung: its node's stacks are written down, and the node is replaced.
    handler_timeout="30s",
    swarm={"max_rss": "500MiB", "restart_backoff": "1s..30s"},
)
logger = logging.getLogger("swarm-example")

# One object, not a million: reading it writes nothing to its memory, so all nodes go on sharing it.
prices: "array[float]" = array("d")


@app.preload
def load_prices() -> None:
    """Runs once, before the nodes are forked. No thread and no client may be left behind."""
    chance = random.Random(1)
    prices.extend(chance.uniform(1.0, 100.0) for _ in range(ITEMS))


@dataclass
class Basket:
    """Decoded value of a record."""

    items: list[int]


def risk(total: float) -> float:
    """Stands for what keeps a core busy for a while; it holds the GIL, and only other processes can work meanwhile."""
    chance = random.Random(total)
    return sum(total * chance.gauss(0.0, 0.1) > 0.2 * total for _ in range(50_000)) / 50_000


@app.consumer("baskets", payload=Basket, max_messages=50)
class Baskets(grete.Consumer):
    """One instance per partition; each partition belongs to one node."""

    def initialize(self) -> None:
        logger.info("node %s takes %s[%d]", app.node, self.topic, self.partition)

    def consume(self) -> None:
        for message in self.messages:
            basket: Basket | None = message.payload
            if basket is not None:  # None: a tombstone
                total = sum(prices[item % ITEMS] for item in basket.items)
                logger.info("%s: %.2f, at risk %.3f", message.key, total, risk(total))
            self.mark(message)
