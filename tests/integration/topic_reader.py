"""Reading partitions to a known end with `grete.client.Consumer`."""

from __future__ import annotations

from collections.abc import Mapping

import grete
from tests.kafka.waiting import Deadline

Partition = tuple[str, int]


def consumer(servers: str, **settings: object) -> grete.client.Consumer:
    """A consumer; `settings` are Kafka's with underscores for dots."""
    kafka = {name.replace("_", "."): value for name, value in settings.items()}
    return grete.client.Consumer({"bootstrap.servers": servers, **kafka})


def read_to(
    reader: grete.client.Consumer, ends: Mapping[Partition, int], seconds: float = 30.0
) -> dict[Partition, list[grete.Message]]:
    """Poll until each partition's position has reached its end; AssertionError after `seconds`.

    Checks on the way that a partition's offsets only ever rise.
    """
    rows: dict[Partition, list[grete.Message]] = {partition: [] for partition in ends}
    deadline = Deadline(seconds)
    while not reached(reader, ends):
        if deadline.over:
            raise AssertionError(f"not within {seconds:g} s: {positions(reader, ends)} should reach {dict(ends)}")
        take(reader, rows, min(0.25, deadline.left))
    return rows


def take(reader: grete.client.Consumer, rows: dict[Partition, list[grete.Message]], timeout: float) -> int:
    """One poll into `rows`; returns the number of records."""
    messages = reader.poll(timeout=timeout)
    if not len(messages):
        return 0
    known = rows.setdefault((messages.topic, messages.partition), [])
    for message in messages:
        assert not known or message.offset > known[-1].offset, f"offset {message.offset} after {known[-1].offset}"
        known.append(message)
    return len(messages)


def reached(reader: grete.client.Consumer, ends: Mapping[Partition, int]) -> bool:
    return all(position is not None and position >= ends[at] for at, position in positions(reader, ends).items())


def positions(reader: grete.client.Consumer, partitions: Mapping[Partition, int]) -> dict[Partition, int | None]:
    return {(topic, index): reader.position(topic, index) for topic, index in partitions}


def offsets(rows: list[grete.Message]) -> list[int]:
    return [row.offset for row in rows]
