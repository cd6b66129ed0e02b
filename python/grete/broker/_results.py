"""Results of commands. Imported when the first result is made: `typing` takes longer than the start of a broker."""

from typing import NamedTuple


class StoredRecord(NamedTuple):
    """Record of a partition, as a consumer with `read_committed` gets the record."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    """ms since 1970; -1: none."""
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]


class LoggedRequest(NamedTuple):
    """Request that a broker got."""

    at: int
    """ms since 1970, on the brokers' clock."""
    broker: int
    client_id: str
    api: str
    """Kafka's name, for example `Fetch`."""
    version: int
    fault: str | None
    """Fault that was applied; None: the broker handled the request as usual."""
