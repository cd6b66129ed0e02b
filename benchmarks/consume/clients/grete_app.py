"""Grete, an App with a class, run by `grete run benchmarks.consume.clients.grete_app:app`.

The topic comes from the environment, as `grete run` has no arguments for the app.
"""

import os
import signal

import grete
from benchmarks.common.meter import Meter

meter = Meter(int(os.environ["BENCH_RECORDS"]))
app = grete.App(
    f"bench-{os.getpid()}",
    kafka={"bootstrap.servers": os.environ["BENCH_BOOTSTRAP"]},
    workers=1,
)


@app.consumer(os.environ["BENCH_TOPIC"])
class Sum(grete.Consumer):
    """Adds up the lengths of the values."""

    def consume(self) -> None:
        size = 0
        for message in self.messages:
            value = message.value
            if value is not None:
                size += len(value)
        if not meter.done and meter.add(len(self.messages), size):
            meter.report(f"grete {grete.__version__}")
            os.kill(os.getpid(), signal.SIGTERM)
