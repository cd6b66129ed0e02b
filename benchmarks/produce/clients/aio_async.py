"""aiokafka, `send` without waiting for each record."""

import asyncio

import aiokafka

from benchmarks.common.arguments import ProduceArguments
from benchmarks.produce.meters import ThroughputMeter


async def main() -> None:
    arguments = ProduceArguments.parse()
    settings = {name: int(value) for name, value in arguments.settings.items()}
    producer = aiokafka.AIOKafkaProducer(
        bootstrap_servers=arguments.bootstrap, acks="all", enable_idempotence=True, **settings
    )
    await producer.start()

    async def send(count: int) -> None:
        topic, value, partition = arguments.topic, arguments.value, arguments.partition
        for _ in range(count):
            await producer.send(topic, value, partition=partition)
        await producer.flush()

    await send(arguments.warm_up)
    meter = ThroughputMeter()
    await send(arguments.records)
    meter.report(arguments.records, arguments.warm_up, f"aiokafka {aiokafka.__version__}")
    await producer.stop()


if __name__ == "__main__":
    asyncio.run(main())
