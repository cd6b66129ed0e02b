"""Dead letter topics, filled by hand."""

from __future__ import annotations

from collections.abc import Iterable

from grete.dlq import headers
from tests.integration.producing import producer
from tests.integration.reading import consumer, read_to
from tests.kafka import KafkaCluster

Headers = list[tuple[str, bytes | None]]
FAILED = "2026-01-31T12:00:%02d.000Z"


def failure(
    source: str, offset: int, *, partition: int = 0, error: str = "app.PaymentError", second: int = 0
) -> Headers:
    """The headers of a record that has failed five times."""
    told = {
        headers.SOURCE_TOPIC: source,
        headers.SOURCE_PARTITION: str(partition),
        headers.SOURCE_OFFSET: str(offset),
        headers.SOURCE_GROUP: "billing",
        headers.ATTEMPTS: "5",
        headers.ERROR_CLASS: error,
        headers.ERROR_MESSAGE: f"no {offset}",
        headers.FIRST_FAILED: FAILED % 0,
        headers.LAST_FAILED: FAILED % second,
    }
    return [(name, value.encode()) for name, value in told.items()]


def write_letters(kafka: KafkaCluster, dlq: str, letters: Iterable[Headers], *, partition: int = 0) -> None:
    """Dead letters with values "0", "1", ... and as many seconds since 1970."""
    records = [(b"k%d" % at, b"%d" % at, told, at * 1000) for at, told in enumerate(letters)]
    with producer(kafka.bootstrap_servers) as target:
        target.produce_many(dlq, records, partition=partition).wait(30)


def everything(kafka: KafkaCluster, topic: str) -> dict[int, list]:  # type: ignore[type-arg]
    """All messages of a topic, by partition."""
    ends = {(topic, partition): end for partition, end in kafka.admin.end_offsets(topic).items()}
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(*at, "earliest") for at in ends])
        found = read_to(reader, ends)
    return {partition: rows for (_, partition), rows in found.items()}


def values(kafka: KafkaCluster, topic: str, partition: int = 0) -> list[int]:
    """What `write_letters` has numbered, as it came back."""
    return [int(message.value or b"-1") for message in everything(kafka, topic)[partition]]
