"""Grete: the low-level consumer's poll, rows with `.value`."""

import grete
from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import Windows
from grete.client import Consumer


def main() -> None:
    arguments = RateArguments.parse()
    with Consumer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as consumer:
        consumer.assign([(arguments.topic, 0, 0)])
        windows = Windows(arguments)
        while windows.running():
            for message in consumer.poll(timeout=0.1, max_messages=1000):
                value = message.value
                if value is not None:
                    windows.handler(value)
        windows.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
