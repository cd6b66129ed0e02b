"""Transactions: what is committed is read, and what is not is not, whatever happens in between."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import confluent_kafka
import pytest

import grete
from tests.integration.exactly_once.reading import committed
from tests.integration.frame_proxy import END_TXN, FrameAction, FrameProxy, always, first
from tests.integration.producers import QUICK
from tests.kafka import KafkaCluster, eventually

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(90)]


def transactional(servers: str, name: str, **settings: object) -> grete.client.Producer:
    """A producer with transactions; `settings` are Kafka's with underscores for dots."""
    kafka = {key.replace("_", "."): value for key, value in settings.items()}
    own = {"bootstrap.servers": servers, "transactional.id": name, "linger.ms": 0, **QUICK, "request.timeout.ms": 3000}
    return grete.client.Producer({**own, **kafka})


def test_a_block_commits_and_an_exception_aborts(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, partitions=3)
    with transactional(kafka.bootstrap_servers, topic) as producer:
        with producer.transaction():
            for index in range(30):
                producer.produce(topic, b"a%d" % index, key=b"%d" % index)
        deliveries = []

        def fail() -> None:
            with producer.transaction():
                deliveries.append(producer.produce(topic, b"lost"))
                deliveries.append(producer.produce_sync(topic, b"written and aborted", timeout=30.0))
                assert deliveries[1].outcome == "written"
                raise ZeroDivisionError

        with pytest.raises(ZeroDivisionError):
            fail()
        lost, written = deliveries
        assert (lost.outcome, written.outcome, written.offset) == ("aborted", "aborted", None)
        assert isinstance(written.error, grete.AbortedDeliveryError)
        with pytest.raises(grete.AbortedDeliveryError, match="its producer aborted it"):
            written.wait(0.0)
        with producer.transaction():
            producer.produce(topic, b"b")
    assert sorted(committed(kafka, topic, 3)) == sorted([*(b"a%d" % index for index in range(30)), b"b"])


def test_many_transactions_in_order(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer:
        for number in range(40):
            producer.begin_transaction()
            producer.produce_many(topic, [b"%d-%d" % (number, index) for index in range(5)])
            if number % 3 == 2:
                producer.abort_transaction()
            else:
                producer.commit_transaction()
    expected = [b"%d-%d" % (number, index) for number in range(40) if number % 3 != 2 for index in range(5)]
    assert committed(kafka, topic) == expected


def test_what_a_large_transaction_writes_while_others_write(kafka: KafkaCluster, topic: str) -> None:
    """A foreign transactional producer, whose transactions are interleaved with ours on the same partitions."""
    kafka.create_topic(topic, partitions=2)
    other = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": f"{topic}-other", "linger.ms": 0}
    )
    other.init_transactions(30)
    expected = []
    with transactional(kafka.bootstrap_servers, topic, batch_size=2000) as producer:
        for number in range(6):
            producer.begin_transaction()
            other.begin_transaction()
            for index in range(200):
                mine, theirs = b"ours-%d-%d" % (number, index), b"theirs-%d-%d" % (number, index)
                producer.produce(topic, mine, partition=index % 2)
                other.produce(topic, theirs, partition=index % 2)
                expected += [mine] * (number % 2 == 0) + [theirs] * (number % 3 == 0)
            other.flush()
            (producer.commit_transaction if number % 2 == 0 else producer.abort_transaction)()
            (other.commit_transaction if number % 3 == 0 else other.abort_transaction)(30)
    assert sorted(committed(kafka, topic, 2)) == sorted(expected)


def test_records_need_a_transaction(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer:
        for call in (producer.produce, producer.produce_sync):
            with pytest.raises(grete.TransactionStateError, match=r"with producer\.transaction\(\)"):
                call(topic, b"outside")
        with pytest.raises(grete.TransactionStateError, match="no open transaction"):
            producer.commit_transaction()
        with producer.transaction():
            with pytest.raises(grete.TransactionStateError, match="one at a time"):
                producer.begin_transaction()
            producer.produce(topic, b"inside")
        with pytest.raises(grete.TransactionStateError, match="no open transaction"):
            producer.abort_transaction()
    with (
        grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as plain,
        pytest.raises(grete.TransactionStateError, match=r"setting transactional\.id"),
    ):
        plain.begin_transaction()
    assert committed(kafka, topic) == [b"inside"]


def test_a_second_producer_with_the_id_fences_the_first(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as second:
        first = transactional(kafka.bootstrap_servers, topic)
        first.begin_transaction()
        first.produce_sync(topic, b"of a zombie", timeout=30.0)
        with second.transaction():
            second.produce(topic, b"of its successor")
        with pytest.raises(grete.FencedError, match="another producer has started with the same"):
            first.commit_transaction()
        with pytest.raises(grete.FencedError):
            first.produce(topic, b"never")
        with pytest.raises(grete.FencedError):
            first.begin_transaction()
        first.close()
    assert committed(kafka, topic) == [b"of its successor"]


def test_offsets_are_committed_with_the_records(kafka: KafkaCluster, topic: str, group: str) -> None:
    source = f"{topic}-source"
    kafka.create_topic(source)
    kafka.create_topic(topic)
    with grete.client.Producer({"bootstrap.servers": kafka.bootstrap_servers}) as plain:
        plain.produce_many(source, [b"%d" % index for index in range(10)]).wait(30.0)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group, "isolation.level": "read_committed"}
    with (
        grete.client.Consumer(settings) as consumer,
        transactional(kafka.bootstrap_servers, topic) as producer,
    ):
        consumer.subscribe([source])
        messages = consumer.poll(30.0)
        while not len(messages):
            messages = consumer.poll(30.0)
        member = consumer.group_metadata()
        assert (member.group_id, member.generation >= 1, bool(member.member_id)) == (group, True, True)

        def fail() -> None:
            with producer.transaction():
                producer.produce(topic, b"aborted")
                producer.send_offsets(messages, consumer)
                raise KeyError

        with pytest.raises(KeyError):
            fail()
        assert kafka.admin.committed(group) == {}
        with producer.transaction():
            producer.produce(topic, b"committed")
            producer.send_offsets(messages[0], consumer)  # the position behind the message
        assert kafka.admin.committed(group) == {(source, 0): 1}
        with producer.transaction():
            with pytest.raises(ValueError, match="beyond the next record"):
                producer.send_offsets({(source, 0): messages.next_offset + 1}, consumer)
            with pytest.raises(grete.NotAssignedError):
                producer.send_offsets({(source, 7): 1}, consumer)
            producer.send_offsets([messages], member)
        assert kafka.admin.committed(group) == {(source, 0): 10}
    assert committed(kafka, topic) == [b"committed"]


def test_offsets_of_a_replaced_member_abort(kafka: KafkaCluster, topic: str, group: str) -> None:
    """KIP-447: the group, not only the transactional id, fences."""
    kafka.create_topic(topic)
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "group.id": group}
    with grete.client.Consumer(settings) as consumer, transactional(kafka.bootstrap_servers, topic) as producer:
        consumer.subscribe([topic])
        eventually(lambda: bool(consumer.poll(0.1) is not None and consumer.assignment()), 30, "an assignment")
        member = consumer.group_metadata()
        old = grete.client.GroupMetadata(member.group_id, member.member_id, member.generation - 1)

        def send() -> None:
            with producer.transaction():
                producer.produce(topic, b"x")
                producer.send_offsets({(topic, 0): 0}, old)

        with pytest.raises(grete.TransactionAbortedError, match="rebalanced") as caught:
            send()
        # Of the classic protocol, and of the consumer protocol.
        assert caught.value.name in ("ILLEGAL_GENERATION", "STALE_MEMBER_EPOCH")
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"next"]


def test_a_record_that_is_refused_aborts(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic, config={"max.message.bytes": 1000})
    with transactional(kafka.bootstrap_servers, topic) as producer:
        producer.begin_transaction()
        small = producer.produce_sync(topic, b"small", timeout=30.0)
        large = producer.produce(topic, b"x" * 5000)
        with pytest.raises(grete.DeliveryError):
            large.wait(30.0)
        eventually(lambda: small.outcome == "aborted", 10, "the end of the first record")
        with pytest.raises(grete.TransactionAbortedError, match="has failed"):
            producer.produce(topic, b"too late")
        with pytest.raises(grete.TransactionAbortedError, match="run the transaction again") as caught:
            producer.commit_transaction()
        assert caught.value.name == "MESSAGE_TOO_LARGE"
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"next"]


def test_a_close_aborts_an_open_transaction(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    producer = transactional(kafka.bootstrap_servers, topic)
    producer.begin_transaction()
    delivery = producer.produce_sync(topic, b"never", timeout=30.0)
    producer.close(20.0)
    assert delivery.outcome == "aborted"
    with pytest.raises(grete.ClosedError):
        producer.begin_transaction()
    assert committed(kafka, topic) == []


def test_asyncio(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)

    async def main() -> None:
        async with transactional(kafka.bootstrap_servers, topic) as producer:
            async with producer.transaction():
                await producer.send(topic, b"one")
                producer.produce(topic, b"two")

            async def cancelled() -> None:
                async with producer.transaction():
                    await producer.send(topic, b"aborted")
                    raise asyncio.CancelledError

            with pytest.raises(asyncio.CancelledError):
                await cancelled()

    asyncio.run(main())
    assert committed(kafka, topic) == [b"one", b"two"]


def test_callbacks_have_run_after_a_commit(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    outcomes: list[str | None] = []
    with transactional(kafka.bootstrap_servers, topic) as producer:
        with producer.transaction():
            producer.produce(topic, b"x", on_delivery=lambda delivery: outcomes.append(delivery.outcome))
        assert outcomes == ["written"]


def test_a_forked_child_has_no_part_in_the_transaction(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer, producer.transaction():
        producer.produce_sync(topic, b"parent", timeout=30.0)
        child = os.fork()
        if child == 0:
            code = 1
            try:
                producer.commit_transaction()
            except grete.ForkedClientError:
                code = 0
            finally:
                os._exit(code)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        producer.produce(topic, b"too")
    assert committed(kafka, topic) == [b"parent", b"too"]


KILLED = """
import os, signal, sys, grete
servers, topic = sys.argv[1:]
producer = grete.client.Producer({"bootstrap.servers": servers, "transactional.id": topic, "linger.ms": 0})
with producer.transaction():
    producer.produce(topic, b"before")
producer.begin_transaction()
producer.produce_sync(topic, b"of the dead", timeout=30.0)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_successor_of_a_killed_process_aborts_its_transaction(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    command = [sys.executable, "-c", KILLED, kafka.bootstrap_servers, topic]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    with transactional(kafka.bootstrap_servers, topic) as producer, producer.transaction():
        producer.produce(topic, b"after")
    assert committed(kafka, topic) == [b"before", b"after"]


def test_ctrl_c_aborts(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer:

        def interrupt() -> None:
            with producer.transaction():
                producer.produce(topic, b"interrupted")
                signal.raise_signal(signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            interrupt()
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"next"]


def test_threads_share_a_transaction(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer, producer.transaction():
        threads = [threading.Thread(target=producer.produce, args=(topic, b"%d" % index)) for index in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert sorted(committed(kafka, topic)) == [b"%d" % index for index in range(8)]


@pytest.mark.parametrize("lost", ["answers", "requests"])
def test_the_answer_to_a_commit_is_lost(broker: KafkaCluster, proxy: FrameProxy, topic: str, lost: str) -> None:
    """The commit is repeated, and is one commit."""
    with transactional(proxy.address, topic, request_timeout_ms=1000) as producer:
        with producer.transaction():
            producer.produce(topic, b"first")
        proxy.treat(api=END_TXN, **{lost: first(1, FrameAction.DROP)})
        with producer.transaction():
            producer.produce(topic, b"second")
        assert len(proxy.requests) >= 2
        with producer.transaction():
            producer.produce(topic, b"third")
    assert committed(broker, topic) == [b"first", b"second", b"third"]


def test_a_commit_that_takes_too_long_goes_on(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    with transactional(proxy.address, topic, request_timeout_ms=1000) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"late")
        proxy.treat(api=END_TXN, answers=always(FrameAction.DROP))
        with pytest.raises(grete.TimeoutError, match=r"call commit_transaction\(\) again"):
            producer.commit_transaction(1.5)
        with pytest.raises(grete.TransactionStateError, match="may succeed"):
            producer.abort_transaction()
        proxy.treat()
        producer.commit_transaction()
    assert committed(broker, topic) == [b"late"]
