"""Transforms records and produces the results, without waiting for their delivery. `TRANSFORMER` says how, as JSON.

group, source, target; handler: a key of HANDLERS; route: settings of the route; kafka: Kafka's settings; app: settings
of the App.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import Any

import grete
from tests.integration.apps import app_log
from tests.integration.transform_app import transformed

SPEC: dict[str, Any] = json.loads(os.environ["TRANSFORMER"])
TARGET: str = SPEC["target"]

app = grete.App(SPEC["group"], kafka=SPEC["kafka"], workers=3, shutdown_timeout="6s", **SPEC.get("app", {}))


@app.monitor.subscribe("app.running")
def running(_occurred: grete.instrumentation.Event) -> None:
    """From now on a SIGTERM is a stop in order."""
    app_log.write("running")


@app.monitor.subscribe("produce.expired")
@app.monitor.subscribe("produce.failed")
@app.monitor.subscribe("produce.given_up")
def undelivered(occurred: grete.instrumentation.Event) -> None:
    """Notes that records were not written."""
    app_log.write("undelivered", name=occurred.name, partition=occurred["partition"], records=occurred["records"])


class Base(grete.Consumer):
    """What all handlers do with a record."""

    def forward(self, message: grete.Message) -> grete.client.Delivery:
        assert message.value is not None
        value = transformed(message.value)
        return self.producer.produce(TARGET, value, key=message.key, partition=message.partition)


class Each(Base):
    """Produces one record after the other."""

    def consume(self) -> None:
        for message in self.messages:
            self.forward(message)


class Fails(Base):
    """Fails at some records in their first run, after it has produced for them."""

    def consume(self) -> None:
        for message in self.messages:
            self.forward(message)
            if self.attempt == 1 and message.offset % 997 == 500:
                raise ValueError(f"fails once at {message.offset}")


class Many(Base):
    """Produces all in one call."""

    def consume(self) -> None:
        rows = [(message.key, transformed(message.value or b"")) for message in self.messages]
        self.producer.produce_many(TARGET, rows, partition=self.partition)


class Waits(Base):
    """Waits for all deliveries before it returns: what is committed then is written, whatever the App does."""

    def consume(self) -> None:
        for delivery in [self.forward(message) for message in self.messages]:
            delivery.wait()


class MarkEach(Base):
    """Marks each message right after its record was produced: with manual offsets, too."""

    def consume(self) -> None:
        for message in self.messages:
            self.forward(message)
            self.mark(message)


class Middle(Base):
    """Marks the first half in the middle of the call."""

    def consume(self) -> None:
        half = len(self.messages) // 2
        for number, message in enumerate(self.messages):
            self.forward(message)
            if number == half:
                self.mark(message, through=True)


class Async(Base):
    """The loop in a coroutine: the event loop is given back now and then, nothing is awaited."""

    async def consume(self) -> None:
        for number, message in enumerate(self.messages):
            self.forward(message)
            if number % 50 == 0:
                await asyncio.sleep(0)


class AsyncMark(Base):
    """Marks each message right after its record was produced, in a coroutine."""

    async def consume(self) -> None:
        for number, message in enumerate(self.messages):
            self.forward(message)
            self.mark(message)
            if number % 50 == 0:
                await asyncio.sleep(0)


class Send(Base):
    """Awaits the delivery of all records of the call."""

    async def consume(self) -> None:
        async def send(message: grete.Message) -> None:
            value = transformed(message.value or b"")
            await self.producer.send(TARGET, value, key=message.key, partition=message.partition)

        await asyncio.gather(*(send(message) for message in self.messages))


HANDLERS = {
    "each": Each,
    "fails": Fails,
    "many": Many,
    "waits": Waits,
    "mark-each": MarkEach,
    "middle": Middle,
    "async": Async,
    "async-mark": AsyncMark,
    "send": Send,
}

# Without a dead letter topic: what is not delivered is tried again until it is.
app.consumer(SPEC["source"], retry=grete.Retry(backoff="20ms..200ms"), **SPEC["route"])(HANDLERS[SPEC["handler"]])
