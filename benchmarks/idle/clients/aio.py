"""aiokafka, async for."""

import asyncio
import os

import aiokafka


async def main() -> None:
    consumer = aiokafka.AIOKafkaConsumer(
        os.environ["IDLE_TOPIC"], bootstrap_servers=os.environ["IDLE_BOOTSTRAP"], group_id=os.environ["IDLE_GROUP"]
    )
    await consumer.start()
    async for _ in consumer:
        pass


if __name__ == "__main__":
    asyncio.run(main())
