"""Who waits for a delivery, and how: threads, callbacks, tasks, signals."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import time
from pathlib import Path

import pytest

import grete
from tests.integration.frame_proxy import FrameAction, FrameProxy, always
from tests.integration.producers import producer as make
from tests.integration.producers import values
from tests.kafka import KafkaCluster

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]
# Seconds within which a call that need not wait returns, on a loaded machine, too.
PATIENCE = 10.0


def switches(thread: int) -> int:
    """How often a thread of ours has gone to sleep so far."""
    status = Path(f"/proc/self/task/{thread}/status").read_text()
    return int(status.split("\nvoluntary_ctxt_switches:")[1].split()[0])


def producers_threads() -> list[int]:
    """The native threads of open producers."""
    tasks = Path("/proc/self/task").iterdir()
    found = [int(task.name) for task in tasks if (task / "comm").read_text().startswith("grete-producer")]
    assert found
    return found


def test_who_waits_sleeps_until_the_answer_is_read(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", timeout=30.0)
        proxy.treat(answers=always(FrameAction.HOLD))
        counts: list[int] = []
        woken: list[float] = []

        def wait() -> None:
            delivery = producer.produce(topic, b"second")
            counts.append(switches(threading.get_native_id()))
            delivery.wait(30.0)
            woken.append(time.monotonic())
            assert delivery.acknowledged_at is not None
            woken.append(delivery.acknowledged_at)
            counts.append(switches(threading.get_native_id()))

        thread = threading.Thread(target=wait)
        thread.start()
        try:
            proxy.wait_requests(1)
            ours = [thread.native_id or 0, *producers_threads()]
            before = sum(map(switches, ours))
            # Time in which someone who polls would wake up: that is what is tested.
            since = time.monotonic()
            threading.Event().wait(1.0)
            woken_up = sum(map(switches, ours)) - before
            seconds = time.monotonic() - since
        finally:
            proxy.release()
        thread.join(30.0)
    slept = counts[1] - counts[0]
    # One that looks every 100 ms would have woken ten times; a timer of the network thread may fall into it.
    assert woken_up <= 3 * seconds, "no thread wakes while nothing comes"
    late = (woken[0] - woken[1]) * 1e6
    print(f"{woken_up} wake-ups in {seconds:.1f} s; slept {slept} times, woke {late:.0f} us after the answer was read")
    # How often a thread waits for the GIL on top of that is up to the machine.
    assert slept >= 1
    assert woken[0] >= woken[1]


def test_many_threads_send_and_each_gets_its_own_answer(broker: KafkaCluster, topic: str) -> None:
    threads, each = 16, 100
    offsets: list[list[int | None]] = [[] for _ in range(threads)]

    def send(number: int) -> None:
        for index in range(each):
            value = b"%d-%d" % (number, index)
            offsets[number].append(producer.produce_sync(topic, value, timeout=30.0).offset)

    with make(broker.bootstrap_servers) as producer:
        producer.partitions(topic, 30.0)
        workers = [threading.Thread(target=send, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join(60.0)
    found = values(broker, topic)
    assert len(found) == threads * each
    for number, row in enumerate(offsets):
        assert [found[offset] for offset in row if offset is not None] == [b"%d-%d" % (number, i) for i in range(each)]
        assert row == sorted(offset for offset in row if offset is not None)


def test_callbacks_run_in_order_in_the_thread_that_asks(broker: KafkaCluster, topic: str) -> None:
    called: list[tuple[int | None, int]] = []

    def note(delivery: grete.client.Delivery) -> None:
        assert delivery.done
        called.append((delivery.offset, threading.get_ident()))

    with make(broker.bootstrap_servers, linger_ms=0) as producer:
        for index in range(500):
            producer.produce(topic, b"%d" % index, on_delivery=note)
        count = len(called)
        while len(called) < 300:
            count += producer.poll(5.0)
        assert count >= 300
        producer.flush(30.0)
        assert len(called) == 500, "flush has called them all"
        producer.produce(topic, b"last", on_delivery=note)
    assert called == [(offset, threading.get_ident()) for offset in range(501)], "close calls what is left"


def test_a_callback_that_raises_does_not_keep_the_others_from_running(broker: KafkaCluster, topic: str) -> None:
    called: list[int | None] = []

    def fail(delivery: grete.client.Delivery) -> None:
        called.append(delivery.offset)
        raise ZeroDivisionError

    with make(broker.bootstrap_servers) as producer:
        for _ in range(3):
            producer.produce(topic, b"x", on_delivery=fail)
        for _ in range(3):
            with contextlib.suppress(ZeroDivisionError):
                producer.flush(30.0)
        assert called == [0, 1, 2]


def test_a_thousand_tasks(broker: KafkaCluster, topic: str) -> None:
    async def main() -> list[grete.client.Delivery]:
        with make(broker.bootstrap_servers) as producer:
            return await asyncio.gather(*(producer.send(topic, b"%d" % index) for index in range(1000)))

    deliveries = asyncio.run(asyncio.wait_for(main(), 60.0))
    found = values(broker, topic)
    assert sorted(delivery.offset for delivery in deliveries if delivery.offset is not None) == list(range(1000))
    for index, delivery in enumerate(deliveries):
        assert delivery.offset is not None
        assert found[delivery.offset] == b"%d" % index


def test_tasks_never_hold_up_the_loop(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """Neither by a broker that is silent nor by a buffer that is full; a task that is cancelled cancels no other."""

    async def main() -> None:
        with make(broker.bootstrap_servers, buffer_memory=1 << 20, batch_size=1 << 16) as producer:
            await producer.send(topic, b"first")
            proxy.treat(answers=always(FrameAction.HOLD))
            tasks = [asyncio.create_task(producer.send(topic, bytes(20_000))) for _ in range(200)]
            longest = 0.0
            end = time.monotonic() + 1.0
            while time.monotonic() < end:
                turn = time.monotonic()
                await asyncio.sleep(0)
                longest = max(longest, time.monotonic() - turn)
            assert not any(task.done() for task in tasks)
            print(f"longest turn of the loop {longest * 1000:.1f} ms")
            # A call that waits for room in the buffer would take a minute (max.block.ms).
            assert longest < PATIENCE
            tasks[0].cancel()
            proxy.release()
            outcomes = await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 30.0)
            assert isinstance(outcomes[0], asyncio.CancelledError)
            assert all(isinstance(row, grete.client.Delivery) and row.outcome == "written" for row in outcomes[1:])

    asyncio.run(main())
    # What was cancelled had been handed over before.
    assert len(values(broker, topic)) == 201


@pytest.mark.parametrize("how", ["wait", "flush", "produce_sync"])
def test_a_signal_reaches_who_waits(broker: KafkaCluster, proxy: FrameProxy, topic: str, how: str) -> None:
    def second(producer: grete.client.Producer) -> None:
        if how == "produce_sync":
            producer.produce_sync(topic, b"second", timeout=30.0)
            return
        delivery = producer.produce(topic, b"second")
        if how == "wait":
            delivery.wait(30.0)
        else:
            producer.flush(30.0)

    class AlarmError(Exception):
        pass

    def ring(*_: object) -> None:
        raise AlarmError

    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", timeout=30.0)
        proxy.treat(answers=always(FrameAction.HOLD))
        before = signal.signal(signal.SIGALRM, ring)
        started = time.monotonic()
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        try:
            with pytest.raises(AlarmError):
                second(producer)
            assert time.monotonic() - started < PATIENCE, "it is not left to wait for its 30 s"
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)
            proxy.release()
    assert values(broker, topic) == [b"first", b"second"]
