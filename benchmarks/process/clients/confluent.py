"""confluent-kafka: a `consume(10000)` loop that calls a function for each record.

`payload=json` and `payload=msgspec` decode each value, `payload=none` hands over the message.
"""

import json
import os
from collections.abc import Iterator
from typing import Any

import confluent_kafka
import msgspec

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.process.clients.event import Event
from benchmarks.process.clients.record_clock import Tally, counting, leave


def batches(arguments: ConsumeArguments, settings: dict[str, str]) -> Iterator[list[Any]]:
    """Yields batches forever."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": arguments.bootstrap,
            "group.id": f"bench-{os.getpid()}",
            "auto.offset.reset": "earliest",
            **settings,
        }
    )
    consumer.subscribe([arguments.topic])
    while True:
        messages = consumer.consume(10_000, 1.0)
        if messages and messages[0].error():
            raise SystemExit(messages[0].error())
        yield messages


def main() -> None:
    arguments = ConsumeArguments.parse()
    settings = dict(arguments.settings)
    payload = settings.pop("payload")
    handle = counting(Tally(arguments.records, f"confluent-kafka {confluent_kafka.__version__}", leave))
    if payload == "none":
        for messages in batches(arguments, settings):
            for message in messages:
                handle(message)
    elif payload == "json":
        loads = json.loads
        for messages in batches(arguments, settings):
            for message in messages:
                handle(loads(message.value()))
    else:
        decode = msgspec.json.Decoder(Event).decode
        for messages in batches(arguments, settings):
            for message in messages:
                handle(decode(message.value()))


if __name__ == "__main__":
    main()
