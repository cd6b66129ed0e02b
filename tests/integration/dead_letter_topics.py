"""Dead letter topics, filled by hand."""

from __future__ import annotations

from collections.abc import Iterable

from grete._dlq import header_names
from tests.integration.producers import producer
from tests.integration.topic_reader import consumer, read_to
from tests.kafka import KafkaCluster

Headers = list[tuple[str, bytes | None]]
FAILED = "2026-01-31T12:00:%02d.000Z"


def failure(
    source: str, offset: int, *, partition: int = 0, error: str = "app.PaymentError", second: int = 0
) -> Headers:
    """The headers of a record that has failed five times."""
    failure_headers = {
        header_names.SOURCE_TOPIC: source,
        header_names.SOURCE_PARTITION: str(partition),
        header_names.SOURCE_OFFSET: str(offset),
        header_names.SOURCE_GROUP: "billing",
        header_names.ATTEMPTS: "5",
        header_names.ERROR_CLASS: error,
        header_names.ERROR_MESSAGE: f"no {offset}",
        header_names.FIRST_FAILED: FAILED % 0,
        header_names.LAST_FAILED: FAILED % second,
    }
    return [(name, value.encode()) for name, value in failure_headers.items()]


def write_letters(kafka: KafkaCluster, dlq: str, letters: Iterable[Headers], *, partition: int = 0) -> None:
    """Dead letters with values "0", "1", ... and as many seconds since 1970."""
    records = [(b"k%d" % at, b"%d" % at, failure_headers, at * 1000) for at, failure_headers in enumerate(letters)]
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
