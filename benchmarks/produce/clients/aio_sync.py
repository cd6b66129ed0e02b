"""aiokafka, `send_and_wait`."""

import asyncio
import time

import aiokafka

from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import SyncMeter


async def main() -> None:
    arguments = ProduceArguments.parse()
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=arguments.bootstrap, acks="all", enable_idempotence=True, linger_ms=0
    )
    await producer.start()
    topic, value = arguments.topic, arguments.value
    for _ in range(arguments.warm_up):
        await producer.send_and_wait(topic, value, partition=0)
    meter = SyncMeter()
    clock, note = time.perf_counter_ns, meter.latencies_ns.append
    meter.start(arguments.warm_up)
    for _ in range(arguments.records):
        before = clock()
        await producer.send_and_wait(topic, value, partition=0)
        note(clock() - before)
    meter.stop()
    meter.report(f"aiokafka {aiokafka.__version__}")
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
