"""Transactions whose processes are killed, stopped or interrupted, whose topics go away, and calls that are wrong."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading

import aiokafka
import confluent_kafka
import confluent_kafka.admin
import pytest

import grete
from tests.integration.exactly_once.reading import committed
from tests.integration.frame_proxy import END_TXN, INIT_PRODUCER_ID, FrameAction, FrameProxy, always, first
from tests.integration.test_transactions import transactional
from tests.kafka import KafkaCluster, eventually, java
from tests.kafka.admin import LATEST
from tests.kafka.apache import ApacheCluster
from tests.kafka.waiting import Deadline

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


def mixture(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """Writes committed and aborted transactions, and returns what readers of committed records must find."""
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic, compression_type="zstd") as producer:
        for number in range(12):
            producer.begin_transaction()
            producer.produce_many(topic, [b"%d-%d" % (number, index) for index in range(20)])
            if number % 2:
                producer.flush()
            (producer.abort_transaction if number % 3 == 1 else producer.commit_transaction)()
    return [b"%d-%d" % (number, index) for number in range(12) if number % 3 != 1 for index in range(20)]


def test_aiokafka_reads_what_is_committed(kafka: KafkaCluster, topic: str) -> None:
    expected = mixture(kafka, topic)

    async def read() -> list[bytes]:
        reader = aiokafka.AIOKafkaConsumer(
            bootstrap_servers=kafka.bootstrap_servers, enable_auto_commit=False, isolation_level="read_committed"
        )
        await reader.start()
        try:
            partition = aiokafka.TopicPartition(topic, 0)
            reader.assign([partition])
            await reader.seek_to_beginning(partition)
            found: list[bytes] = []
            while len(found) < len(expected):
                for messages in (await reader.getmany(timeout_ms=500)).values():
                    found += [message.value or b"" for message in messages]
            return found
        finally:
            await reader.stop()

    assert asyncio.run(asyncio.wait_for(read(), 60)) == expected


@pytest.mark.apache("Java comes with it")
def test_kafkas_console_consumer_reads_what_is_committed(kafka: KafkaCluster, topic: str) -> None:
    assert isinstance(kafka, ApacheCluster)
    expected = mixture(kafka, topic)
    line = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", f"{kafka.jars.classpath}:{java.tools(kafka.jars)}"]
    line += ["org.apache.kafka.tools.consumer.ConsoleConsumer", "--bootstrap-server", kafka.bootstrap_servers]
    line += ["--topic", topic, "--from-beginning", "--isolation-level", "read_committed"]
    output = java.run([*line, "--timeout-ms", "8000"], timeout=90)
    assert output.split() == expected


# A process that writes to its end what it is about to do. `PHASE`: where it is killed.
STEPS = """
import os, signal, sys, threading, grete
servers, topic, phase = sys.argv[1:]
def at(name):
    if name == phase:
        os.kill(os.getpid(), signal.SIGKILL)
producer = grete.client.Producer({"bootstrap.servers": servers, "transactional.id": topic, "linger.ms": 5})
with producer.transaction():
    producer.produce(topic, b"before")
producer.begin_transaction()
at("begun")
producer.produce(topic, b"killed-1")
at("queued")
producer.produce_sync(topic, b"killed-2", timeout=30.0)
at("written")
producer.send_offsets({(topic, 0): 1}, grete.client.GroupMetadata(topic))
at("offsets")
threading.Thread(target=producer.commit_transaction, daemon=True).start()
at("committing")
while not producer.statistics()["written"] >= 3:
    pass
try:
    producer.commit_transaction()
except grete.errors.TransactionStateError:
    pass  # the other thread has committed by now
at("committed")
"""


@pytest.mark.parametrize("phase", ["begun", "queued", "written", "offsets", "committing", "committed"])
def test_sigkill_leaves_all_or_nothing(kafka: KafkaCluster, topic: str, phase: str) -> None:
    kafka.create_topic(topic)
    command = [sys.executable, "-c", STEPS, kafka.bootstrap_servers, topic, phase]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGKILL
    with transactional(kafka.bootstrap_servers, topic) as producer, producer.transaction():
        producer.produce(topic, b"after")
    killed, offsets = [b"killed-1", b"killed-2"], {(topic, 0): 1}
    whole = ([b"before", *killed, b"after"], offsets)
    none: tuple[list[bytes], dict[tuple[str, int], int]] = ([b"before", b"after"], {})
    found = (committed(kafka, topic), kafka.admin.committed(topic))
    allowed = {"committed": [whole], "committing": [whole, none]}.get(phase, [none])
    assert found in allowed


STOPPED = """
import sys, grete
servers, topic = sys.argv[1:3]
settings = {"bootstrap.servers": servers, "transactional.id": topic, "transaction.timeout.ms": 1000}
producer = grete.client.Producer(settings)
producer.begin_transaction()
producer.produce_sync(topic, b"too old", timeout=30.0)
print("open", flush=True)
sys.stdin.readline()
try:
    if sys.argv[3] == "records":
        producer.produce(topic, b"of a zombie")
    producer.commit_transaction()
except grete.TransactionError as error:
    print(type(error).__name__, error, flush=True)
producer.close()
"""


@pytest.mark.parametrize("sends", ["records", "nothing"])
def test_a_process_that_is_stopped_for_too_long(kafka: KafkaCluster, topic: str, sends: str) -> None:
    """SIGSTOP beyond transaction.timeout.ms: the coordinator aborts, and what the zombie sends afterwards is refused.

    With transaction.version 2 the producer gets the next epoch, and goes on; before, it is fenced.
    """
    kafka.create_topic(topic)
    command = [sys.executable, "-c", STOPPED, kafka.bootstrap_servers, topic, sends]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "open\n"
        process.send_signal(signal.SIGSTOP)
        admin = confluent_kafka.admin.AdminClient({"bootstrap.servers": kafka.bootstrap_servers})
        partition = confluent_kafka.TopicPartition(topic, 0)

        def stable_end() -> int:
            latest = {partition: LATEST}
            level = confluent_kafka.IsolationLevel.READ_COMMITTED
            return int(admin.list_offsets(latest, isolation_level=level)[partition].result(10).offset)

        eventually(lambda: stable_end() == 2, 60, "the coordinator's marker")  # a record and the marker
        process.send_signal(signal.SIGCONT)
        process.stdin.write("\n")
        process.stdin.flush()
        text = process.stdout.readline()
        assert text.startswith(("FencedError", "TransactionAbortedError")), text
        assert "longer than transaction.timeout.ms (1000 ms)" in text
        assert process.wait(30) == 0
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()
    with transactional(kafka.bootstrap_servers, topic) as producer, producer.transaction():
        producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"next"]


def test_ctrl_c_during_a_commit_leaves_the_commit_going_on(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    with transactional(proxy.address, topic, request_timeout_ms=1000) as producer:
        producer.begin_transaction()
        producer.produce(topic, b"committed")
        proxy.treat(api=END_TXN, answers=always(FrameAction.DROP))
        timer = threading.Timer(1.0, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with pytest.raises(KeyboardInterrupt):
            producer.commit_transaction()
        timer.join()
        with pytest.raises(grete.TransactionStateError, match="may succeed"):
            producer.abort_transaction()
        proxy.treat()
        producer.commit_transaction()
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(broker, topic) == [b"committed", b"next"]


def test_a_block_whose_begin_is_cancelled_leaves_nothing_open(
    broker: KafkaCluster, proxy: FrameProxy, topic: str
) -> None:
    """The thread that begins goes on after asyncio has cancelled the wait: what it begins is aborted."""
    proxy.treat(api=INIT_PRODUCER_ID, answers=first(1, FrameAction.DROP))

    async def main() -> None:
        async with transactional(proxy.address, topic, request_timeout_ms=1000) as producer:

            async def block() -> None:
                async with producer.transaction():
                    raise AssertionError

            with pytest.raises(TimeoutError):
                await asyncio.wait_for(block(), 0.3)
            deadline = Deadline(30.0)
            while True:
                try:
                    async with producer.transaction():
                        await producer.send(topic, b"next")
                    break
                except grete.TransactionStateError:
                    assert not deadline.over
                    await asyncio.sleep(0.05)

    asyncio.run(main())
    assert committed(broker, topic) == [b"next"]


def test_a_close_finishes_a_commit_that_ctrl_c_has_left(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    producer = transactional(proxy.address, topic, request_timeout_ms=1000)
    producer.begin_transaction()
    producer.produce(topic, b"committed")
    proxy.treat(api=END_TXN, requests=always(FrameAction.DROP))
    with pytest.raises(grete.TimeoutError):
        producer.commit_transaction(0.5)
    proxy.treat()
    producer.close(30.0)
    assert committed(broker, topic) == [b"committed"]


def test_a_topic_that_is_deleted_inside_of_a_transaction(kafka: KafkaCluster, topic: str) -> None:
    """The transaction is aborted with the cause, and the next one succeeds."""
    gone = f"{topic}-gone"
    kafka.create_topic(topic)
    kafka.create_topic(gone)
    with transactional(kafka.bootstrap_servers, topic, delivery_timeout_ms=6000) as producer:
        producer.begin_transaction()
        producer.produce_sync(topic, b"aborted", timeout=30.0)
        producer.produce_sync(gone, b"aborted", timeout=30.0)
        kafka.admin.delete_topic(gone)
        producer.produce(gone, b"lost")
        with pytest.raises(grete.TransactionAbortedError, match="was not delivered"):
            producer.commit_transaction()
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"next"]


def test_a_child_that_leaves_the_block_of_its_parent(kafka: KafkaCluster, topic: str) -> None:
    """Its commit raises, and the transaction stays with the parent."""
    kafka.create_topic(topic)
    with transactional(kafka.bootstrap_servers, topic) as producer:
        with producer.transaction():
            producer.produce_sync(topic, b"parent", timeout=30.0)
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    with producer.transaction():
                        pass
                except grete.ForkedClientError:
                    code = 0
                finally:
                    os._exit(code)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with producer.transaction():
            producer.produce(topic, b"next")
    assert committed(kafka, topic) == [b"parent", b"next"]


def test_wrong_arguments(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    servers = {"bootstrap.servers": kafka.bootstrap_servers}
    group = grete.client.GroupMetadata("g")
    with grete.client.Consumer(servers) as lonely, transactional(kafka.bootstrap_servers, topic) as producer:
        with pytest.raises(grete.TransactionStateError, match="no open transaction"):
            producer.send_offsets({(topic, 0): 1}, group)
        with producer.transaction():
            for offsets, error in (
                ({(topic, 0): -1}, ValueError),
                ({(topic, 0): "1x"}, ValueError),
                ({topic: 1}, TypeError),
                ([b"message"], TypeError),
                (7, TypeError),
            ):
                with pytest.raises(error):
                    producer.send_offsets(offsets, group)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="group_metadata"):
                producer.send_offsets({(topic, 0): 1}, "g")  # type: ignore[arg-type]
            with pytest.raises(grete.GroupError, match=r"group\.id"):
                producer.send_offsets({(topic, 0): 1}, lonely)
            with pytest.raises(ValueError, match=r"group\.id"):
                producer.send_offsets({(topic, 0): 1}, grete.client.GroupMetadata(""))
            with pytest.raises((ValueError, grete.GreteError)):
                producer.commit_transaction(-1.0)
            producer.send_offsets([], group)
            producer.produce(topic, b"fine")
    for settings in ({"acks": "1"}, {"enable.idempotence": False}, {"transaction.timeout.ms": 0}):
        with pytest.raises(grete.ConfigError):
            grete.client.Producer({**servers, "transactional.id": topic, **settings})
    assert committed(kafka, topic) == [b"fine"]


def test_a_timeout_that_the_brokers_do_not_allow(kafka: KafkaCluster, topic: str) -> None:
    producer = transactional(kafka.bootstrap_servers, topic, transaction_timeout_ms=3_600_000)
    with pytest.raises(grete.TransactionError, match=r"transaction\.max\.timeout\.ms") as caught:
        producer.begin_transaction()
    producer.close()
    assert caught.value.name == "INVALID_TRANSACTION_TIMEOUT"
