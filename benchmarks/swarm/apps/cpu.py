"""A handler that computes in Python for a few milliseconds: `BENCH_STEPS` says how long."""

from __future__ import annotations

import os

import grete

from .counts import Counts
from .setup import DIRECTORY, GROUP, SOON, TOPIC

STEPS = int(os.environ["BENCH_STEPS"])
app = grete.App(GROUP, kafka=SOON)
counts = Counts(DIRECTORY)


@app.consumer(TOPIC)
def compute(_message: grete.Message) -> None:
    """Nothing here gives up the GIL."""
    number = 1
    for step in range(STEPS):
        number = (number * 1_103_515_245 + step) & 0x7FFF_FFFF
    counts.add()
