"""Grete, as fast as it goes.

`mode=one` by `produce`, `mode=on_delivery` each with a callback, `mode=many` by lists, `mode=arrow` by Arrow arrays.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import grete
from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import ThroughputMeter
from grete.client import Delivery, Producer

if TYPE_CHECKING:
    import pyarrow as pa

AT_ONCE = 10_000


def one_by_one(producer: Producer, arguments: ProduceArguments, count: int) -> None:
    produce, topic, value, partition = producer.produce, arguments.topic, arguments.value, arguments.partition
    for _ in range(count):
        produce(topic, value, partition=partition)
    producer.flush()


def reported(producer: Producer, arguments: ProduceArguments, count: int) -> None:
    produce, topic, value, partition = producer.produce, arguments.topic, arguments.value, arguments.partition
    reports = 0

    def on_delivery(delivery: Delivery) -> None:
        nonlocal reports
        if delivery.error is not None:
            raise SystemExit(delivery.error)
        reports += 1

    for _ in range(count):
        produce(topic, value, partition=partition, on_delivery=on_delivery)
    producer.flush()
    if reports != count:
        raise SystemExit(f"{reports} of {count} records were reported")


def many(producer: Producer, arguments: ProduceArguments, count: int, values: Sequence[bytes] | pa.Table) -> None:
    topic, partition = arguments.topic, arguments.partition
    under_way = []
    for start in range(0, count, AT_ONCE):
        part = values if count - start >= AT_ONCE else values[: count - start]
        under_way.append(producer.produce_many(topic, part, partition=partition))
    producer.flush()
    for deliveries in under_way:
        if not deliveries.done or deliveries.errors:
            raise SystemExit(f"not delivered: {deliveries.errors[:1]}")


def main() -> None:
    arguments = ProduceArguments.parse()
    mode = arguments.settings.pop("mode")
    values = [arguments.value] * AT_ONCE
    version = f"grete {grete.__version__}"
    columns: pa.Table | None = None
    if mode == "arrow":
        import pyarrow as pa  # it takes memory, and the others do without

        columns = pa.table({"value": pa.array(values, pa.binary())})
        version += f", pyarrow {pa.__version__}"

    def send(count: int) -> None:
        if mode == "one":
            one_by_one(producer, arguments, count)
        elif mode == "on_delivery":
            reported(producer, arguments, count)
        else:
            many(producer, arguments, count, values if columns is None else columns)

    with Producer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as producer:
        send(arguments.warm_up)
        meter = ThroughputMeter()
        send(arguments.records)
        meter.report(arguments.records, arguments.warm_up, version)


if __name__ == "__main__":
    main()
