"""aiokafka, getmany."""

import asyncio

import aiokafka

from benchmarks.common.arguments import ConsumeArguments
from benchmarks.common.meter import Meter


async def main() -> None:
    arguments = ConsumeArguments.parse()
    meter = Meter(arguments.records)
    consumer = aiokafka.AIOKafkaConsumer(bootstrap_servers=arguments.bootstrap, enable_auto_commit=False)
    await consumer.start()
    partitions = [aiokafka.TopicPartition(arguments.topic, index) for index in range(arguments.partitions)]
    consumer.assign(partitions)
    await consumer.seek_to_beginning(*partitions)
    while not meter.done:
        for messages in (await consumer.getmany(timeout_ms=1000)).values():
            meter.add(len(messages), sum(len(message.value) for message in messages))
    meter.report(f"aiokafka {aiokafka.__version__}")
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main())
