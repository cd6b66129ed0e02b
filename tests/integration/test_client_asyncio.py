"""Low-level clients in event loops, and iteration."""

from __future__ import annotations

import asyncio
import inspect
import random
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

import grete
from grete.client import Admin, Consumer, NewTopic, Producer
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka
DEADLINE = 60.0


def settings(kafka: KafkaCluster, **more: Any) -> dict[str, Any]:
    return {"bootstrap.servers": kafka.bootstrap_servers, **more}


@asynccontextmanager
async def reading(kafka: KafkaCluster, topic: str, start: Any = "earliest", **more: Any) -> AsyncIterator[Consumer]:
    """A consumer of all partitions of the topic."""
    async with asyncio.timeout(DEADLINE), Consumer(settings(kafka, **more)) as consumer:
        consumer.assign([(topic, number, start) for number in await consumer.partitions_async(topic)])
        yield consumer


def threads() -> int:
    return threading.active_count()


def test_async_for_returns_each_record_and_goes_on_when_more_arrive(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)

    async def main() -> list[tuple[int, int]]:
        seen: list[tuple[int, int]] = []
        async with reading(kafka, topic) as consumer, Producer(settings(kafka)) as producer:
            async for messages in consumer:
                seen += [(message.partition, message.offset) for message in messages]
                if len(seen) == 3000:
                    return seen
                if len(seen) % 1000 == 0:
                    records = [b"%d" % number for number in range(1000)]
                    await producer.produce_many(topic, records, partition=len(seen) // 1000)
        raise AssertionError("the consumer has ended")

    fill(kafka.bootstrap_servers, topic, 1000, partitions=1)
    seen = asyncio.run(main())
    assert sorted(seen) == [(partition, offset) for partition in range(3) for offset in range(1000)]


def test_for_ends_when_another_thread_closes_the_consumer(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 500)
    seen: list[int] = []
    enough = threading.Event()

    def read() -> None:
        for messages in consumer:
            seen.extend(message.offset for message in messages)
            if len(seen) == 500:
                enough.set()

    consumer = Consumer(settings(kafka))
    consumer.assign([(topic, 0, "earliest")])
    thread = threading.Thread(target=read)
    thread.start()
    assert enough.wait(DEADLINE)
    consumer.close()
    thread.join(DEADLINE)
    assert (thread.is_alive(), seen) == (False, list(range(500)))


def test_async_for_ends_when_another_task_closes_the_consumer(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    async def main() -> int:
        async with reading(kafka, topic) as consumer:

            async def read() -> int:
                count = 0
                async for messages in consumer:
                    count += len(messages)
                return count

            task = asyncio.create_task(read())
            await asyncio.sleep(0)
            await consumer.close_async()
            return await task

    assert asyncio.run(main()) == 0


def test_a_poll_without_records_ends_in_time_and_holds_up_nobody(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    async def main() -> None:
        async with reading(kafka, topic, "latest") as consumer:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            assert not await consumer.poll_async(0.3)
            assert not await consumer.poll_async(0)
            ticking.cancel()
            assert ticks > 3

    asyncio.run(main())


def test_other_tasks_run_while_there_are_always_records(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 300)

    async def main() -> tuple[int, int]:
        async with reading(kafka, topic) as consumer:
            count = len(await consumer.poll_async(None, max_messages=1))
            turns = 0

            async def turn() -> None:
                nonlocal turns
                while True:
                    await asyncio.sleep(0)
                    turns += 1

            turning = asyncio.create_task(turn())
            while count < 300:
                count += len(await consumer.poll_async(None, max_messages=1))
            turning.cancel()
            return count, turns

    count, turns = asyncio.run(main())
    assert (count, turns >= 200) == (300, True), turns


def test_cancelled_polls_lose_no_record(kafka: KafkaCluster, topic: str) -> None:
    """Tasks are cancelled at random moments while records arrive, in the middle of batches and between them."""
    kafka.create_topic(topic, partitions=2)
    chance = random.Random(7)

    async def main() -> tuple[list[tuple[int, int]], int]:
        seen: list[tuple[int, int]] = []
        cancelled = 0
        async with reading(kafka, topic) as consumer, Producer(settings(kafka, **{"linger.ms": 0})) as producer:

            async def write() -> None:
                for number in range(1000):
                    await producer.produce(topic, b"%d" % number, partition=number % 2)

            writing = asyncio.create_task(write())
            while len(seen) < 1000:
                task = asyncio.create_task(consumer.poll_async(None, max_messages=7))
                for _ in range(chance.randrange(6)):
                    await asyncio.sleep(0)
                if chance.random() < 0.5:
                    await asyncio.sleep(chance.random() / 1000)
                if chance.random() < 0.6:
                    task.cancel()
                try:
                    messages = await task
                except asyncio.CancelledError:
                    if not task.cancelled() or cast("asyncio.Task[None]", asyncio.current_task()).cancelling():
                        raise  # the deadline
                    cancelled += 1
                else:
                    seen += [(message.partition, message.offset) for message in messages]
            await writing
        return seen, cancelled

    seen, cancelled = asyncio.run(main())
    assert sorted(seen) == [(partition, offset) for partition in range(2) for offset in range(500)]
    assert cancelled > 20


def test_many_consumers_wait_at_once_without_a_thread_each(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    count = 20

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), Producer(settings(kafka)) as producer:
            consumers = [Consumer(settings(kafka)) for _ in range(count)]
            for consumer in consumers:
                consumer.assign([(topic, 0, "earliest")])
            before = threads()
            polls = [asyncio.create_task(consumer.poll_async(None)) for consumer in consumers]
            await asyncio.sleep(0)
            await producer.produce(topic, b"for all")
            assert [len(messages) for messages in await asyncio.gather(*polls)] == [1] * count
            assert threads() <= before
            for consumer in consumers:
                consumer.close()

    asyncio.run(main())


def test_two_polls_at_once_are_refused(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    async def main() -> None:
        async with reading(kafka, topic) as consumer:
            first = asyncio.create_task(consumer.poll_async(None))
            await asyncio.sleep(0)
            with pytest.raises(RuntimeError, match="two tasks poll at once"):
                await consumer.poll_async(0)
            first.cancel()
            await asyncio.gather(first, return_exceptions=True)
            assert not await consumer.poll_async(0)

    asyncio.run(main())


def test_a_group_commits_what_was_polled(kafka: KafkaCluster, topic: str, group: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), Consumer(settings(kafka, **{"group.id": group})) as consumer:
            consumer.subscribe([topic])
            left = 100
            async for messages in consumer:
                await consumer.commit_async(messages)
                left -= len(messages)
                if not left:
                    break
            assert await consumer.committed_async([(topic, 0)]) == {(topic, 0): 100}
            assert await consumer.offsets_async([(topic, 0, "latest")]) == {(topic, 0): 100}

    asyncio.run(main())
    assert kafka.admin.committed(group) == {(topic, 0): 100}


def test_what_fails_for_good_is_raised_in_the_loop(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)

    async def main() -> None:
        async with reading(kafka, topic, 7000, **{"auto.offset.reset": "none"}) as consumer:
            with pytest.raises(grete.OffsetError):
                await consumer.poll_async(None)

    asyncio.run(main())


def test_loops_one_after_the_other_share_a_consumer(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 20)
    with Consumer(settings(kafka)) as consumer:
        consumer.assign([(topic, 0, "earliest")])
        offsets: list[int] = []
        while len(offsets) < 20:
            offsets += [message.offset for message in asyncio.run(consumer.poll_async(DEADLINE, max_messages=5))]
        assert offsets == list(range(20))


def test_deliveries_are_awaited(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=2)

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), Producer(settings(kafka)) as producer:
            delivery = await producer.produce(topic, b"v", partition=1)
            assert (delivery.outcome, delivery.offset) == ("written", 0)
            assert await delivery is delivery, "it is settled already"
            many = await producer.produce_many(topic, [b"v"] * 5000, partition=0)
            assert (many.done, many.errors, many.partitions) == (True, [], [0])
            assert (await producer.produce_many(topic, [])).partitions == []
            gathered = await asyncio.gather(*(producer.produce(topic, b"v", partition=1) for _ in range(100)))
            assert sorted(one.offset or 0 for one in gathered) == list(range(1, 101))
            await producer.flush_async()
            assert await producer.partitions_async(topic) == 2

    asyncio.run(main())


def test_a_failed_delivery_raises_where_it_is_awaited(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": "1000"})

    async def main() -> None:
        async with asyncio.timeout(DEADLINE):
            producer = Producer(settings(kafka, **{"linger.ms": 0}))
            with pytest.raises(grete.DeliveryError, match="too large for the topic"):
                await producer.produce(topic, bytes(5000))
            with pytest.raises(grete.DeliveryError, match="too large for the topic"):
                await producer.produce_many(topic, [b"", bytes(5000)])
            await producer.close_async()

    asyncio.run(main())


def test_admin_calls_are_awaited_many_at_once(kafka: KafkaCluster, topic: str) -> None:
    names = [f"{topic}-{number}" for number in range(20)]

    async def main() -> None:
        async with asyncio.timeout(DEADLINE), Admin(settings(kafka)) as admin:
            assert all(await asyncio.gather(*(admin.create_topic_async(name, partitions=2) for name in names)))
            assert set(names) <= set(await admin.topics_async())
            found = await admin.describe_topics_async(names)
            assert [len(one.partitions) for one in found.values()] == [2] * 20
            with pytest.raises(grete.TopicExistsError):
                await admin.create_topics_async([NewTopic(names[0])])
            with pytest.raises(grete.UnknownTopicError):
                await admin.describe_topic_async(f"{topic}-none", timeout=30.0)
            await admin.delete_topics_async(names)
            assert not set(names) & set(await admin.topics_async())
        with pytest.raises(grete.ClosedError):
            await admin.topics_async()

    before = threads()
    asyncio.run(main())
    eventually(lambda: threads() <= before, DEADLINE, "the end of the threads")


@pytest.mark.parametrize("client", [Admin, Consumer, Producer])
def test_every_call_that_waits_has_a_twin(client: type[Any]) -> None:
    """A call that waits has a timeout. `poll` and `produce_sync` of producers have `send` in event loops."""
    waiting = {
        name
        for name, member in inspect.getmembers(client, callable)
        if not name.startswith("_") and "timeout" in (inspect.signature(member).parameters if name != "mro" else ())
    }
    waiting = {name for name in waiting if not name.endswith("_async")}
    assert waiting >= {"close"}
    for name in waiting - ({"poll", "produce_sync"} if client is Producer else set()):
        twin = getattr(client, f"{name}_async")
        assert inspect.iscoroutinefunction(twin) or inspect.iscoroutinefunction(inspect.unwrap(twin).__call__)
        assert list(inspect.signature(twin).parameters) == list(inspect.signature(getattr(client, name)).parameters)
