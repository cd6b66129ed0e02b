"""Grete, an App under `grete run benchmarks.idle.clients.grete_app:app`."""

import os

import grete

app = grete.App(os.environ["IDLE_GROUP"], kafka={"bootstrap.servers": os.environ["IDLE_BOOTSTRAP"]})


@app.consumer(os.environ["IDLE_TOPIC"])
class Nothing(grete.Consumer):
    """Gets no record, as there are none."""

    def consume(self) -> None:
        for _ in self.messages:
            pass
