"""Grete: the low-level consumer's poll, rows with `.value`, or with `mode=columns` the values of a batch at once."""

import grete
from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import Windows
from grete.client import Consumer


def main() -> None:
    arguments = RateArguments.parse()
    columns = arguments.settings.pop("mode", "rows") == "columns"
    with Consumer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as consumer:
        consumer.assign([(arguments.topic, 0, 0)])
        windows = Windows(arguments)
        while windows.running():
            messages = consumer.poll(timeout=1.0, max_messages=1000)
            if columns:
                for value in messages.values():
                    if value is not None:
                        windows.handler(value)
                continue
            for message in messages:
                value = message.value
                if value is not None:
                    windows.handler(value)
        windows.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    main()
