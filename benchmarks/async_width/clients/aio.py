"""aiokafka, asyncio.gather over the records of each getmany, as its users write it."""

from __future__ import annotations

import asyncio

import aiokafka

from benchmarks.async_width.clients.stopwatch import Stopwatch
from benchmarks.common.arguments import ConsumeArguments


async def main() -> None:
    """Reads the partition, and waits for all records of a batch before it asks for the next one."""
    arguments = ConsumeArguments.parse()
    watch = Stopwatch(arguments.records, float(arguments.settings.pop("wait")))
    loop = asyncio.get_running_loop()
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=arguments.bootstrap, enable_auto_commit=False)
    await consumer.start()
    partitions = [aiokafka.TopicPartition(arguments.topic, index) for index in range(arguments.partitions)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    while not watch.finished.is_set():
        for messages in (await consumer.getmany(timeout_ms=1000)).values():
            await asyncio.gather(*(watch.handle() for _ in messages))
    watch.report(f"aiokafka {aiokafka.__version__}, {type(loop).__module__.partition('.')[0]}")
    await consumer.stop()


if __name__ == "__main__":
    try:
        import uvloop
    except ImportError:
        asyncio.run(main())
    else:
        uvloop.run(main())
