"""An App that should not be forked, or that warns; `BAD_HOW` says in which way."""

from __future__ import annotations

import os
import threading

import grete

HOW = os.environ["BAD_HOW"]

app = grete.App("bad", kafka={"bootstrap.servers": os.environ.get("BAD_SERVERS", "127.0.0.1:1")})


@app.consumer("orders", **({"nodes": [7]} if HOW == "pin" else {}))  # type: ignore[arg-type]
def orders(messages: grete.Messages) -> None:
    """Never called."""


def wait_for_ever() -> None:
    """What a careless module starts at its import."""
    threading.Event().wait()


if HOW == "thread":
    threading.Thread(target=wait_for_ever, name="refresher", daemon=True).start()
elif HOW == "producer":
    producer = grete.client.Producer({"bootstrap.servers": "127.0.0.1:1"})
elif HOW == "confluent":
    import confluent_kafka

    foreign = confluent_kafka.Producer({"bootstrap.servers": "127.0.0.1:1", "log_level": 0})
elif HOW == "numpy":
    import numpy as np

    square = np.ones((64, 64)) @ np.ones((64, 64))


if HOW.startswith("preload"):

    @app.preload
    def load_model() -> None:
        """Raises, or starts what it must not."""
        if HOW == "preload-thread":
            threading.Thread(target=wait_for_ever, name="refresher", daemon=True).start()
        else:
            raise FileNotFoundError("there is no model.bin")
