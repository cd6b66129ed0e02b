"""An App with 300 MB of its own: half of it bytes, half of it small objects; for each record its handler reads some.

`BENCH_READ` is "hot" (the same 1,000 of them each time, spread over all) or "any" (1,000 others each time, so all of
them in the end).
"""

from __future__ import annotations

import os
import random
import sys

import grete

from .counts import Counts
from .setup import DIRECTORY, GROUP, SOON, TOPIC

BYTES = OBJECTS = 150_000_000
BLOB = 100_000
READ = 1_000
ANY = os.environ["BENCH_READ"] == "any"


class Product:
    """Five small objects, as rows of a table that an App keeps in a dict."""

    __slots__ = ("name", "price", "stock", "tags")

    def __init__(self, number: int) -> None:
        self.name = f"product {number}"
        self.price = number / 7
        self.stock = number + 1_000
        self.tags = (f"tag {number}", self.price)

    def size(self) -> int:
        """Bytes, as Python counts."""
        parts = (self, self.name, self.price, self.stock, self.tags, self.tags[0])
        return sum(map(sys.getsizeof, parts))


# About what an entry of the dict takes, beside its key.
_ENTRY = 48
blobs: list[bytes] = []
products: dict[int, Product] = {}
hot: list[int] = []
app = grete.App(GROUP, kafka=SOON, queued_bytes="8MiB")
counts = Counts(DIRECTORY)


@app.preload
def load() -> None:
    """Loads the objects that the nodes of a swarm share."""
    blobs.extend(number.to_bytes(4, "big") * (BLOB // 4) for number in range(BYTES // BLOB))
    each = Product(1_000_000).size() + sys.getsizeof(1_000_000) + _ENTRY
    products.update((number, Product(number)) for number in range(OBJECTS // each))
    hot.extend(random.Random(5).sample(range(len(products)), READ))


@app.consumer(TOPIC)
def read(_message: grete.Message) -> None:
    """Half of what is read are bytes, half are products."""
    numbers = random.choices(range(len(products)), k=READ) if ANY else hot
    total = 0.0
    for number in numbers[: READ // 2]:
        total += blobs[number % len(blobs)][100]
    for number in numbers[READ // 2 :]:
        product = products[number]
        total += product.price + product.stock + len(product.name)
    counts.add()
