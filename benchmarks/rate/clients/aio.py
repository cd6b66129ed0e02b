"""aiokafka, getmany."""

import asyncio

import aiokafka

from benchmarks.common.arguments import RateArguments
from benchmarks.rate.handler import Windows


async def main() -> None:
    arguments = RateArguments.parse()
    consumer = aiokafka.AIOKafkaConsumer(
        bootstrap_servers=arguments.bootstrap, enable_auto_commit=False, fetch_max_wait_ms=500, fetch_min_bytes=1
    )
    await consumer.start()
    partition = aiokafka.TopicPartition(arguments.topic, 0)
    consumer.assign([partition])
    await consumer.seek_to_beginning(partition)

    windows = Windows(arguments)
    while windows.running():
        for messages in (await consumer.getmany(timeout_ms=100)).values():
            for message in messages:
                windows.handler(message.value)
    windows.report(f"aiokafka {aiokafka.__version__}")
    await consumer.stop()


if __name__ == "__main__":
    asyncio.run(main())
