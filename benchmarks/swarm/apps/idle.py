"""An App that waits: its topic is empty."""

from __future__ import annotations

import grete

from .setup import GROUP, KAFKA, TOPIC

app = grete.App(GROUP, kafka=KAFKA)


@app.consumer(TOPIC)
class Nothing(grete.Consumer):
    """Gets no record, as there are none."""

    def consume(self) -> None:
        raise AssertionError("the topic is empty")
