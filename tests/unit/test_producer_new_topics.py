"""Records of topics without metadata, produced in an event loop: they wait in the producer."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest

import grete
from grete.client import Delivery, Producer
from tests.unit.fake_broker import FakeBroker

NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}


@pytest.fixture
def broker() -> Iterator[FakeBroker]:
    with FakeBroker({"orders": 1, "many": 3}) as fake:
        yield fake


def run(producer: Producer, main: Callable[[Producer], Awaitable[None]]) -> None:
    async def entered() -> None:
        async with producer:
            await main(producer)

    asyncio.run(entered())


def test_calls_in_a_loop_return_at_once_and_records_keep_their_order(broker: FakeBroker) -> None:
    async def main(producer: Producer) -> None:
        first = [producer.produce("orders", b"%d" % n, headers={"h": b"%d" % n}) for n in range(3)]
        many = producer.produce_many("orders", [(None, b"3", {"h": b"3"}), b"4"])
        keyed = producer.produce_many("orders", [b"5"], keys=[b"k"])
        last = producer.produce("orders", memoryview(b"6"), key=bytearray(b"k"), timestamp=7)
        assert (first[0].partition, many.partitions, repr(last)) == (-1, [], "<Delivery orders, waits for metadata>")
        assert producer.statistics()["unassigned_records"] == producer.statistics()["pending_records"] == 7
        # A thread that waits for the metadata itself comes after the records that were taken before.
        sync = await asyncio.to_thread(producer.produce_sync, "orders", b"7")
        await asyncio.gather(*first, many, keyed, last)
        assert [one.offset for one in (*first, *many, *keyed, last, sync)] == list(range(8))
        assert (first[0].partition, many.partitions) == (0, [0])
        assert producer.statistics()["unassigned_records"] == 0

    run(Producer(broker.settings), main)
    assert [row.value for row in broker.rows] == [b"%d" % n for n in range(8)]
    assert [dict(row.headers) for row in broker.rows[:4]] == [{"h": b"%d" % n} for n in range(4)]
    assert (broker.rows[5].key, broker.rows[6].key, broker.rows[6].timestamp) == (b"k", b"k", 7)


def test_keys_choose_the_partitions_of_calls_on_threads(broker: FakeBroker) -> None:
    keys = [b"key-%d" % n for n in range(50)]

    async def main(producer: Producer) -> None:
        queued = [producer.produce("many", b"v", key=key) for key in keys]
        await asyncio.gather(*queued)
        known = [producer.produce("many", b"v", key=key) for key in keys]
        assert [one.partition for one in queued] == [one.partition for one in known]

    run(Producer(broker.settings), main)


def test_what_is_of_the_wrong_type_is_refused_at_once(broker: FakeBroker) -> None:
    async def main(producer: Producer) -> None:
        for wrong in ("text", 5, [b"v"]):
            with pytest.raises(grete.RecordTypeError):
                producer.produce("orders", wrong)  # type: ignore[call-overload]
        with pytest.raises(grete.RecordTooLargeError):
            producer.produce("orders", bytes(2 << 20))
        assert producer.statistics()["pending_records"] == 0

    run(Producer(broker.settings), main)


def test_a_topic_that_does_not_exist_fails_its_deliveries(broker: FakeBroker) -> None:
    async def main(producer: Producer) -> None:
        called: list[Delivery] = []
        one = producer.produce("invoicez", b"v", on_delivery=called.append)
        many = producer.produce_many("invoicez", [b"v", b"w"])
        await producer.produce("orders", b"v")
        with pytest.raises(grete.DeliveryError, match=r'there is no topic "odrers".*did you mean "orders"'):
            await producer.produce("odrers", b"v")
        with pytest.raises(grete.DeliveryError, match='there is no topic "invoicez": check the name, create') as caught:
            await one
        assert (caught.value.name, caught.value.outcome) == ("UNKNOWN_TOPIC_OR_PARTITION", "not_written")
        with pytest.raises(grete.DeliveryError, match="2 of 2 records"):
            await many
        producer.poll(0.0)
        assert called == [one]
        assert called[0].error is not None
        wrong = producer.produce("many", b"v", partition=3)
        with pytest.raises(grete.DeliveryError, match=r"many\[3\]: there is no such topic or partition"):
            await wrong

    run(Producer(broker.settings), main)


def test_a_topic_that_is_made_meanwhile_gets_its_records(broker: FakeBroker) -> None:
    async def main(producer: Producer) -> None:
        deliveries = [producer.produce("later", b"%d" % n) for n in range(100)]
        broker.topics["later"] = 1
        await producer.flush_async(30.0)
        assert [one.offset for one in deliveries] == list(range(100))

    run(Producer({**broker.settings, "topic.metadata.propagation.max.ms": 60_000}), main)


def test_without_a_broker_max_block_counts() -> None:
    async def main(producer: Producer) -> None:
        with pytest.raises(grete.DeliveryError, match="no broker has named the topic's partitions within") as caught:
            await producer.produce("orders", b"v")
        assert (caught.value.code, caught.value.outcome) == (None, "not_written")

    run(Producer(NOWHERE, max_block=0.2), main)


def test_without_a_wait_the_call_raises() -> None:
    async def main(producer: Producer) -> None:
        with pytest.raises(grete.TimeoutError):
            producer.produce("orders", b"v")
        with pytest.raises(grete.TimeoutError):
            producer.produce_many("orders", [b"v"])

    run(Producer(NOWHERE, max_block=0), main)


def test_a_thread_without_a_loop_raises_itself() -> None:
    raised: list[BaseException] = []

    def call() -> None:
        try:
            producer.produce("orders", b"v")
        except grete.TimeoutError as error:
            raised.append(error)

    async def main() -> None:
        thread = threading.Thread(target=call)
        thread.start()
        await asyncio.to_thread(thread.join, 30.0)

    with Producer(NOWHERE, max_block=0.1) as producer:
        asyncio.run(main())
        assert len(raised) == 1
        assert producer.statistics()["not_written"] == 0


def test_a_close_reports_records_that_still_wait() -> None:
    async def main() -> None:
        producer = Producer(NOWHERE)
        deliveries = producer.produce_many("orders", [b"v"] * 5)
        undelivered = await producer.close_async(0.1)
        assert (undelivered.by_topic, undelivered.not_written, undelivered.unknown) == ({"orders": 5}, 5, 0)
        assert [one.outcome for one in deliveries] == ["not_written"] * 5
        with pytest.raises(grete.DeliveryError, match="the producer was closed"):
            await deliveries[0]

    asyncio.run(main())


def test_records_that_wait_count_against_the_memory() -> None:
    async def main() -> None:
        producer = Producer({**NOWHERE, "buffer.memory": 200_000, "batch.size": 16384}, max_block=0.3)
        taken = []
        # A call waits for room until the first records have failed. They came only milliseconds before the call, so on
        # a busy machine its time may be over first. Then the next call gets the room that they leave.
        for _ in range(400):
            start = time.monotonic()
            try:
                taken.append(producer.produce("orders", bytes(1000)))
            except grete.BufferFullError:
                assert time.monotonic() - start >= 0.3
                with pytest.raises(grete.DeliveryError):
                    await taken[-1]
                taken.append(producer.produce("orders", bytes(1000)))
            statistics = producer.statistics()
            assert statistics["buffered_bytes"] <= 200_000
            assert statistics["unassigned_records"] < 200
        assert taken[0].outcome == "not_written"
        for one in taken:
            with pytest.raises(grete.DeliveryError):
                await one
        assert producer.statistics()["buffered_bytes"] == 0
        await producer.close_async(0)

    asyncio.run(main())


def test_a_partitioner_gets_the_number_of_partitions(broker: FakeBroker) -> None:
    async def main(producer: Producer) -> None:
        delivery = producer.produce("many", b"v")
        assert delivery.partition == 2
        explicit = producer.produce("orders", b"v", partition=0)
        assert explicit.partition == -1
        await explicit

    run(Producer(broker.settings, partitioner=lambda _topic, _key, count: count - 1), main)
