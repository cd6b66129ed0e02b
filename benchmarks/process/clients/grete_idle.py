"""Grete, an App that waits on IDLE_TOPIC with a class; with IDLE_ASYNC=1 also for another topic, with an async one."""

from __future__ import annotations

import os

import grete

KAFKA = {"bootstrap.servers": os.environ["IDLE_BOOTSTRAP"]}
TOPIC = os.environ["IDLE_TOPIC"]
GROUP = os.environ["IDLE_GROUP"]
app = grete.App(GROUP, kafka=KAFKA)


@app.consumer(TOPIC)
class Nothing(grete.Consumer):
    """Gets no record, as there are none."""

    def consume(self) -> None:
        raise AssertionError("the topic is empty")


if os.environ.get("IDLE_ASYNC"):

    @app.consumer(f"{TOPIC}-async")
    async def nothing(_message: grete.Message) -> None:
        raise AssertionError("the topic is empty")


if __name__ == "__main__":
    app.run()
