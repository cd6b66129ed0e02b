"""Records by a foreign producer: Kafka's own where there is Java, librdkafka on the embedded brokers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from . import java
from .admin import QUIET
from .apache import ApacheCluster
from .cluster import KafkaCluster
from .load import value_of

HEADERS: tuple[tuple[str, bytes | None], ...] = (
    ("twice", b"\x01"),
    ("twice", b"\x02"),
    ("null", None),
    ("empty", b""),
    ("", b"\x03"),
    ("Käfer", b"Gregor"),
)


def produce(
    cluster: KafkaCluster,
    topic: str,
    count: int,
    *,
    codec: str = "none",
    properties: Mapping[str, object] | None = None,
    first: int = 0,
    partitions: int = 1,
    size: int = 100,
    keys: int = 0,
    headers: str = "none",
    nulls: int = 0,
    transaction: int = 0,
    abort: int = 0,
    left_open: int = 0,
) -> dict[str, int]:
    """Write records; returns {"produced", "aborted"}. The options are those of JavaProducer.java."""
    if isinstance(cluster, ApacheCluster):
        options: dict[str, Any] = {"first": first, "partitions": partitions, "size": size, "keys": keys}
        options |= {"headers": headers, "nulls": nulls, "transaction": transaction, "abort": abort, "open": left_open}
        return java.produce(cluster, topic, count, codec=codec, properties=properties, **options)
    settings: dict[str, object] = {"bootstrap.servers": cluster.bootstrap_servers, "compression.type": codec}
    settings |= {"linger.ms": 5, "message.max.bytes": 64 << 20, **QUIET, **(properties or {})}
    producer = Producer(settings)
    failures: list[KafkaError] = []
    aborted = 0
    if transaction:
        producer.init_transactions(30.0)

    def reported(error: KafkaError | None, _message: Message) -> None:
        if error is not None:
            failures.append(error)

    for done in range(count):
        index, last = first + done, done + 1 == count
        if transaction and done % transaction == 0:
            producer.begin_transaction()
        row: dict[str, object] = {"partition": index % partitions, "on_delivery": reported}
        if keys:
            row["key"] = b"key-%d" % (index % keys)
        if headers == "mixed":
            row["headers"] = [("index", b"%d" % index), *HEADERS]
        value = None if nulls and index % nulls == 0 else value_of(index, size)
        producer.produce(topic, value, **row)  # type: ignore[arg-type]
        producer.poll(0)
        if not transaction or (last and left_open) or ((done + 1) % transaction and not last):
            continue
        if abort and (done // transaction + 1) % abort == 0:
            # Or the producer drops what it has not sent, and the log holds no aborted records.
            producer.flush(30.0)
            producer.abort_transaction(30.0)
            aborted += done % transaction + 1
        else:
            producer.commit_transaction(30.0)
    left = producer.flush(60.0)
    if failures:
        raise KafkaException(failures[0])
    assert left == 0
    return {"produced": count, "aborted": aborted}
