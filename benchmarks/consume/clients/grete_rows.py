"""Grete, rows: each record's value is touched in a Python loop."""

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter
from grete.client import Consumer


def main() -> None:
    arguments = ConsumeArguments.parse()
    meter = Meter(arguments.records)
    at_once = int(arguments.settings.pop("max_messages", 10_000))
    with Consumer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as consumer:
        consumer.assign([(arguments.topic, index, 0) for index in range(arguments.partitions)])
        while not meter.done:
            size = 0
            messages = consumer.poll(timeout=1.0, max_messages=at_once)
            for message in messages:
                value = message.value
                if value is not None:
                    size += len(value)
            meter.add(len(messages), size)
        meter.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
