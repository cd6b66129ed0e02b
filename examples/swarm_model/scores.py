"""A model that is loaded once and shared by the processes of a swarm: each record is scored by it.

The model stands for what takes seconds and gigabytes to load: vectors of 200,000 products. A preload runs in the
supervisor before it forks, so that all nodes read the same pages of memory.
"""

import os

# One thread for each node, and no thread pool in the process that forks: set before numpy is imported.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

from dataclasses import dataclass

import numpy
import numpy.typing

import grete

PRODUCTS = int(os.environ.get("PRODUCTS", "200000"))
DIMENSIONS = 64

app = grete.App("scores", workers=1, swarm={"nodes": 2, "max_rss": "1GiB"})


@dataclass
class Basket:
    """Products that a customer has in the basket."""

    products: list[int]


@dataclass
class Advice:
    """Products that go with the basket, the best one first, and the node that found them."""

    products: list[int]
    node: int | None


baskets = app.topic("baskets", key=str, value=Basket, partitions=4)
advice = app.topic("advice", key=str, value=Advice)


@app.preload
def load_model() -> None:
    """Runs once. An array is one object, so nodes that read it write nothing to its pages, not even counts."""
    chance = numpy.random.default_rng(7)
    vectors = chance.standard_normal((PRODUCTS, DIMENSIONS), dtype=numpy.float32)
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True)
    vectors.flags.writeable = False
    app.state.vectors = vectors


@app.consumer(baskets, publish=advice, dead_letter="baskets.dlq")
def advise(basket: Basket) -> Advice:
    vectors: numpy.typing.NDArray[numpy.float32] = app.state.vectors
    wanted = vectors[basket.products].sum(axis=0)
    scores = vectors @ wanted
    scores[basket.products] = -numpy.inf
    best = numpy.argpartition(scores, -5)[-5:]
    return Advice([int(product) for product in best[numpy.argsort(-scores[best])]], app.node)
