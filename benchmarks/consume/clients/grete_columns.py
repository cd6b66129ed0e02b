"""Grete, columns: the value lengths are summed through Arrow, no record becomes an object."""

import numpy as np
import pyarrow as pa

import grete
from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter
from grete.client import Consumer

VIEW_WORDS = 4  # an Arrow binary view is 16 bytes, and the first int32 of it is the length


def value_bytes(messages: grete.Messages) -> int:
    """Sum of the lengths of the values, as any Arrow library would see them."""
    values = pa.record_batch(messages).column("value")
    views = np.frombuffer(values.buffers()[1], dtype=np.int32)
    lengths = views[values.offset * VIEW_WORDS : (values.offset + len(values)) * VIEW_WORDS : VIEW_WORDS]
    return int(lengths.sum(dtype=np.int64))


def main() -> None:
    arguments = ConsumeArguments.parse()
    meter = Meter(arguments.records)
    at_once = int(arguments.settings.pop("max_messages", 10_000))  # the default of poll, too
    with Consumer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as consumer:
        consumer.assign([(arguments.topic, index, 0) for index in range(arguments.partitions)])
        while not meter.done:
            messages = consumer.poll(timeout=1.0, max_messages=at_once)
            if messages:
                meter.add(len(messages), value_bytes(messages))
        meter.report(f"grete {grete.__version__}, pyarrow {pa.__version__}")


if __name__ == "__main__":
    main()
