"""Log lines appear when things happen, whatever call a thread is in, and have the time at which they happened."""

from __future__ import annotations

import asyncio
import logging
import queue
import select
import threading
import time
from collections.abc import Callable, Iterator

import pytest

import grete
from grete.client import Admin, Consumer, Producer
from tests.unit.fake_broker import FakeBroker

# Nothing listens there.
NOWHERE = {"bootstrap.servers": "127.0.0.1:1"}
PATIENCE = 60.0


class Lines(logging.Handler):
    """Records of `grete.client`, and the thread that is in each call of `emit`."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: queue.Queue[logging.LogRecord] = queue.Queue()

    def emit(self, record: logging.LogRecord) -> None:
        self.queue.put(record)

    def taken(self) -> Iterator[logging.LogRecord]:
        """The lines that are there."""
        while not self.queue.empty():
            yield self.queue.get_nowait()

    def next(self, event: str) -> logging.LogRecord:
        """The next line of that event. Raises queue.Empty when it does not come."""
        while True:
            record = self.queue.get(timeout=PATIENCE)
            if record.__dict__["event"] == event:
                return record


@pytest.fixture
def lines() -> Iterator[Lines]:
    logger, handler = logging.getLogger("grete.client"), Lines()
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    yield handler
    logger.removeHandler(handler)
    logger.setLevel(level)


class Call:
    """A call in a thread of its own; what the call raises is expected, as its client is closed meanwhile."""

    def __init__(self, call: Callable[[], object]) -> None:
        self.thread = threading.Thread(target=self._run, args=(call,), daemon=True)
        self.thread.start()

    def _run(self, call: Callable[[], object]) -> None:
        try:
            call()
        except grete.GreteError:
            pass

    def is_blocked(self) -> bool:
        return self.thread.is_alive()

    def ends(self) -> None:
        self.thread.join(PATIENCE)
        assert not self.thread.is_alive()


@pytest.mark.parametrize(
    "call",
    [
        lambda producer: producer.produce("orders", b"v"),
        lambda producer: producer.produce_sync("orders", b"v"),
        lambda producer: producer.produce_many("orders", [b"v"], partition=0),
        lambda producer: producer.partitions("orders", PATIENCE),
    ],
    ids=["produce", "produce_sync", "produce_many", "partitions"],
)
def test_a_producer_that_waits_for_metadata(lines: Lines, call: Callable[[Producer], object]) -> None:
    producer = Producer(NOWHERE, max_block=PATIENCE)
    waiting = Call(lambda: call(producer))
    lines.next("broker.connect_failed")
    lines.next("broker.connect_failed")
    assert waiting.is_blocked()
    producer.close(0.0)
    waiting.ends()


@pytest.mark.parametrize(
    "wait",
    [
        lambda producer, _: producer.flush(PATIENCE),
        lambda producer, _: producer.poll(PATIENCE),
        lambda producer, _: producer.close(PATIENCE),
        lambda _, deliveries: deliveries.wait(PATIENCE),
        lambda _, deliveries: deliveries[0].wait(PATIENCE),
    ],
    ids=["flush", "poll", "close", "deliveries", "delivery"],
)
def test_a_producer_that_waits_for_outcomes(lines: Lines, wait: Callable[[Producer, object], object]) -> None:
    with FakeBroker({"orders": 1}, answer=lambda _topic, _partition: None) as broker:
        producer = Producer({**broker.settings, "delivery.timeout.ms": 60_000, "request.timeout.ms": 30_000})
        deliveries = producer.produce_many("orders", [b"v"])
        broker.wait_for_batches(1)
        waiting = Call(lambda: wait(producer, deliveries))
        broker.go_away()
    lines.next("broker.disconnected")
    lines.next("broker.connect_failed")
    assert waiting.is_blocked()
    producer.close(0.0)
    waiting.ends()


def test_a_producer_whose_memory_is_full(lines: Lines) -> None:
    with FakeBroker({"orders": 1}, answer=lambda _topic, _partition: None) as broker:
        settings = {**broker.settings, "buffer.memory": 65_536, "batch.size": 16_384, "linger.ms": 0}
        producer = Producer(settings, max_block=PATIENCE)

        def fill() -> None:
            while True:
                producer.produce("orders", b"v" * 1000)

        waiting = Call(fill)
        broker.wait_for_batches(1)
        broker.go_away()
    lines.next("broker.disconnected")
    lines.next("broker.connect_failed")
    assert waiting.is_blocked()
    producer.close(0.0)
    waiting.ends()


def test_a_loop_whose_tasks_wait(lines: Lines) -> None:
    async def main() -> None:
        sending = asyncio.ensure_future(producer.send("orders", b"v"))
        await asyncio.to_thread(lines.next, "broker.connect_failed")
        await asyncio.to_thread(lines.next, "broker.connect_failed")
        assert not sending.done()
        sending.cancel()

    with Producer(NOWHERE, max_block=PATIENCE) as producer:
        asyncio.run(main())


@pytest.mark.parametrize(
    "call",
    [
        lambda admin: admin.topics(timeout=PATIENCE),
        lambda admin: admin.describe_topic("orders", timeout=PATIENCE),
        lambda admin: admin.cluster(timeout=PATIENCE),
        lambda admin: admin.groups(timeout=PATIENCE),
        lambda admin: admin.committed("group", timeout=PATIENCE),
    ],
    ids=["topics", "describe_topic", "cluster", "groups", "committed"],
)
def test_an_admin_client(lines: Lines, call: Callable[[Admin], object]) -> None:
    admin = Admin(NOWHERE)
    waiting = Call(lambda: call(admin))
    lines.next("broker.connect_failed")
    lines.next("broker.connect_failed")
    assert waiting.is_blocked()
    admin.close()
    waiting.ends()


@pytest.mark.parametrize(
    "call",
    [
        lambda consumer: consumer.poll(PATIENCE),
        lambda consumer: consumer.partitions("orders", PATIENCE),
        lambda consumer: consumer.offsets([("orders", 0, "latest")], PATIENCE),
        lambda consumer: consumer.committed([("orders", 0)], PATIENCE),
        lambda consumer: (consumer.assign([("orders", 0, 0)]), consumer.commit({("orders", 0): 1}, PATIENCE)),
    ],
    ids=["poll", "partitions", "offsets", "committed", "commit"],
)
def test_a_consumer(lines: Lines, call: Callable[[Consumer], object]) -> None:
    consumer = Consumer({**NOWHERE, "group.id": "group"})
    waiting = Call(lambda: call(consumer))
    lines.next("broker.connect_failed")
    lines.next("broker.connect_failed")
    assert waiting.is_blocked()
    consumer.close(0.5)
    waiting.ends()


def test_a_line_that_comes_late_has_the_time_of_what_happened(lines: Lines) -> None:
    with FakeBroker({"orders": 1}) as broker, Producer(broker.settings) as producer:
        producer.produce_sync("orders", b"v", timeout=PATIENCE)
        producer.poll(0.0)
        began = time.time()
        broker.go_away()
        record = None
        while record is None:
            # No thread is in a call, until something has happened.
            readable, _, _ = select.select([producer._event_fd()], [], [], PATIENCE)
            assert readable
            before = time.time()
            producer.poll(0.0)
            record = next((line for line in lines.taken() if line.__dict__["event"] == "broker.disconnected"), None)
        now = logging.LogRecord("", 0, "", 0, "", (), None)
        assert began <= record.created <= before <= now.created
        assert record.msecs == pytest.approx(record.created * 1000 % 1000, abs=1.0)
        behind = now.created - record.created
        assert now.relativeCreated - record.relativeCreated == pytest.approx(behind * 1000, abs=1.0)


def test_what_a_handler_of_the_log_raises_ends_the_wait(lines: Lines) -> None:
    class Interrupting(logging.Handler):
        def emit(self, _record: logging.LogRecord) -> None:
            raise KeyboardInterrupt

    interrupting, logger = Interrupting(), logging.getLogger("grete.client")
    clients: list[tuple[Callable[[], object], Callable[[], object]]] = []
    producer = Producer(NOWHERE, max_block=PATIENCE)
    admin, consumer = Admin(NOWHERE), Consumer({**NOWHERE, "group.id": "group"})
    clients.append((lambda: producer.produce("orders", b"v"), lambda: producer.close(0.0)))
    clients.append((admin.topics, admin.close))
    clients.append((lambda: consumer.poll(PATIENCE), lambda: consumer.close(0.5)))
    clients.append((lambda: consumer.committed([("orders", 0)], PATIENCE), lambda: None))
    logger.addHandler(interrupting)
    try:
        for call, _ in clients:
            with pytest.raises(KeyboardInterrupt):
                call()
    finally:
        logger.removeHandler(interrupting)
        for _, close in clients:
            close()


def test_addresses_of_bootstrap_servers_are_called_by_their_address(lines: Lines) -> None:
    with Producer(NOWHERE, max_block=0.0) as producer:
        with pytest.raises(grete.TimeoutError):
            producer.produce("orders", b"v")
        waiting = Call(lambda: producer.poll(PATIENCE))
        line = lines.next("broker.connect_failed")
        assert line.getMessage().startswith("bootstrap address 127.0.0.1:1 cannot be reached (attempt 1): ")
        assert line.__dict__["broker"] == "bootstrap"
        assert "so calls wait until they time out" in lines.next("cluster.down").getMessage()
        producer.close(0.0)
        waiting.ends()
