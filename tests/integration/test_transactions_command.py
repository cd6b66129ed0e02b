"""`grete transactions`, and the methods of Admin behind it: producers of Grete and foreign ones."""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Iterator, Sequence

import confluent_kafka
import pytest

from grete.client import Admin, Consumer, Producer
from grete.errors import FencedError, KafkaError, TransactionAbortedError, TransactionStateError
from tests.integration.commands import grete
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka


@pytest.fixture
def transactional_id() -> str:
    return f"pay-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def producer(kafka: KafkaCluster, transactional_id: str) -> Iterator[Producer]:
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id}
    with contextlib.suppress(FencedError), Producer(settings) as producer:
        yield producer


@pytest.fixture
def admin(kafka: KafkaCluster) -> Iterator[Admin]:
    with Admin({"bootstrap.servers": kafka.bootstrap_servers}) as admin:
        yield admin


@pytest.fixture
def orders(kafka: KafkaCluster, topic: str) -> str:
    kafka.create_topic(topic, partitions=2)
    return topic


def begin(producer: Producer, topic: str) -> None:
    """Opens a transaction with a record in partition 1."""
    producer.begin_transaction()
    producer.produce_sync(topic, b"1", partition=1)


def test_an_open_transaction_is_listed_described_and_ends(
    kafka: KafkaCluster, admin: Admin, orders: str, producer: Producer, transactional_id: str
) -> None:
    begin(producer, orders)
    (listed,) = [one for one in admin.transactions(["Ongoing"]) if one.transactional_id == transactional_id]
    assert admin.transactions(producer_ids=[listed.producer_id]) == [listed]
    found = admin.describe_transactions([transactional_id])[transactional_id]
    assert (found.state, found.partitions, found.timeout) == ("Ongoing", ((orders, 1),), 60.0)
    assert found.started is not None
    assert found.is_open
    (writer,) = admin.describe_producers([(orders, 1)])[orders, 1]
    assert (writer.producer_id, writer.producer_epoch) == (found.producer_id, found.producer_epoch)
    assert writer.transaction_start == 0
    assert admin.hanging_transactions([orders], open_for=0) == [], "its coordinator will end it"

    rows = grete(kafka, "transactions", "list", "--state", "Ongoing", "--json").rows
    assert transactional_id in [row["transactional_id"] for row in rows]
    described = grete(kafka, "transactions", "describe", transactional_id)
    assert described.out.startswith(f"transactional id {transactional_id}: Ongoing for ")
    assert described.out.splitlines()[-1].split() == [orders, "1"]
    (row,) = grete(kafka, "transactions", "producers", f"{orders}:1", "--json").rows
    assert (row["producer_id"], row["start"]) == (found.producer_id, 0)

    producer.commit_transaction()
    eventually(lambda: not admin.describe_transactions([transactional_id])[transactional_id].is_open, 10)
    (row,) = grete(kafka, "transactions", "describe", transactional_id, "--json").rows
    assert (row["started"], row["partitions"]) == (None, [])


def test_an_abort_fences_the_producer_and_lets_readers_go_on(
    kafka: KafkaCluster, admin: Admin, orders: str, producer: Producer, transactional_id: str
) -> None:
    begin(producer, orders)
    with Producer({"bootstrap.servers": kafka.bootstrap_servers}) as plain:
        plain.produce_sync(orders, b"behind", partition=1)
    dry = grete(kafka, "transactions", "abort", transactional_id, "--dry-run")
    assert dry.out.startswith(f"would be aborted: transactional id {transactional_id}: Ongoing")
    assert admin.describe_transactions([transactional_id])[transactional_id].is_open
    done = grete(kafka, "transactions", "abort", transactional_id, "--yes")
    assert done.status == 0, done.err
    assert done.out == f"the transaction of {transactional_id} is aborted, and its producer is fenced\n"
    settings = {"bootstrap.servers": kafka.bootstrap_servers, "isolation.level": "read_committed"}
    with Consumer(settings) as reader:
        reader.assign([(orders, 1, "earliest")])
        read: list[bytes | None] = []

        def has_read() -> bool:
            read.extend(reader.poll(0.5).values())
            return bool(read)

        eventually(has_read, 20)
    assert read == [b"behind"]
    with pytest.raises((FencedError, TransactionAbortedError)):
        producer.commit_transaction()
    again = grete(kafka, "transactions", "abort", transactional_id, "--yes")
    assert again.out.startswith(f"{transactional_id} has no open transaction (")


def test_a_transaction_of_a_foreign_client_is_aborted(kafka: KafkaCluster, orders: str, transactional_id: str) -> None:
    foreign = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "transactional.id": transactional_id}
    )
    foreign.init_transactions(30)
    foreign.begin_transaction()
    foreign.produce(orders, b"1", partition=0)
    foreign.flush(30)
    assert grete(kafka, "transactions", "abort", transactional_id, "--yes").status == 0
    with pytest.raises(confluent_kafka.KafkaException):
        foreign.commit_transaction(30)


def test_a_transaction_is_aborted_in_one_partition_by_its_first_offset(
    kafka: KafkaCluster, admin: Admin, orders: str, producer: Producer
) -> None:
    begin(producer, orders)
    with pytest.raises(TransactionStateError, match=r"begins at offset 5: open ones begin at 0"):
        admin.abort_transaction(orders, 1, 5)
    dry = grete(kafka, "transactions", "abort", "--topic", f"{orders}:1", "--start", "0", "--dry-run")
    assert dry.out == f"the transaction of {orders}[1] at offset 0 would be aborted\n"
    done = grete(kafka, "transactions", "abort", "--topic", f"{orders}:1", "--start", "0", "--yes")
    assert done.status == 0, done.err
    assert admin.describe_producers([(orders, 1)])[orders, 1][0].transaction_start is None
    with pytest.raises(TransactionStateError, match="none is open there"):
        admin.abort_transaction(orders, 1, 0)


def test_unknown_ids_and_states_and_wrong_words_are_named(kafka: KafkaCluster, admin: Admin, orders: str) -> None:
    with pytest.raises(KafkaError, match="no-such-id") as unknown:
        admin.describe_transactions(["no-such-id"])
    assert unknown.value.name == "TRANSACTIONAL_ID_NOT_FOUND"
    done = grete(kafka, "transactions", "abort", "no-such-id", "--yes")
    assert done.status == 1
    assert "check the id against the list of transactions" in done.err
    assert "the state Nonsense" in grete(kafka, "transactions", "list", "--state", "Nonsense").err
    for words in ([], ["a", "--topic", "t:0", "--start", "1"], ["--topic", "t:0"], ["--start", "1"]):
        done = grete(kafka, "transactions", "abort", *words, "--yes")
        assert done.status == 2, words
        assert "give transactional ids, or --topic TOPIC:PARTITION with --start OFFSET" in done.err
    assert "one partition here" in grete(kafka, "transactions", "abort", "--topic", orders, "--start", "0").err
    assert grete(kafka, "transactions", "hanging", "--topic", orders).err.strip() == "no transaction hangs"


def test_the_calls_have_awaitable_twins(admin: Admin, orders: str) -> None:
    async def ask() -> Sequence[object]:
        producers = await admin.describe_producers_async([(orders, 0)])
        return [producers, await admin.hanging_transactions_async([orders])]

    assert asyncio.run(ask()) == [{(orders, 0): []}, []]
