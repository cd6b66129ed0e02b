"""Grete under asyncio: `await producer.send`."""

import asyncio
import time

import grete
from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import SyncMeter
from benchmarks.produce.wakeup_time import handover_ns
from grete.client import Producer


async def main() -> None:
    arguments = ProduceArguments.parse()
    topic, value = arguments.topic, arguments.value
    with Producer({"bootstrap.servers": arguments.bootstrap, **arguments.settings}) as producer:
        for _ in range(arguments.warm_up):
            await producer.send(topic, value, partition=0)
        meter = SyncMeter()
        clock, monotonic = time.perf_counter_ns, time.monotonic
        note, handover = meter.latencies_ns.append, meter.handovers_ns.append
        meter.start(arguments.warm_up)
        for _ in range(arguments.records):
            before = clock()
            delivery = await producer.send(topic, value, partition=0)
            now = monotonic()
            note(clock() - before)
            handover(handover_ns(delivery, now))
        meter.stop()
        meter.report(f"grete {grete.__version__}")


if __name__ == "__main__":
    asyncio.run(main())
