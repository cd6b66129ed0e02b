"""Producer and group client without brokers."""

import asyncio
import functools
import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Literal, Self, TypeAlias

from grete import _native
from grete._native import Delivery, Job, Message
from grete.client.producer import Headers, Producer
from grete.instrumentation.emit import log_native_events
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete.client")

FailDelivery: TypeAlias = str | Iterable[str] | Mapping[str, int | None]

# Kafka's settings of the App that a producer in memory cannot have. As with a broker, records are in flight until
# a caller waits for them, or their job or the run ends.
_OVERRIDES = {
    "bootstrap.servers": "memory:9092",
    "linger.ms": "3600000",
    "delivery.timeout.ms": "86400000",
    "compression.type": "none",
}


def refusals(fail_delivery: FailDelivery) -> dict[str, int | None]:
    """Returns the number of records that each topic refuses; None: all."""
    if isinstance(fail_delivery, str):
        return {fail_delivery: None}
    return dict(fail_delivery) if isinstance(fail_delivery, Mapping) else dict.fromkeys(fail_delivery)


class MemoryProducer(Producer):
    """Producer that writes to memory."""

    def __new__(cls, pairs: Iterable[tuple[str, str]], log: _native._TestingLog, monitor: Monitor) -> Self:
        """`pairs`: Kafka's settings of the App."""
        log_events = functools.partial(log_native_events, logger, monitor=monitor)
        settings = {name: value for name, value in pairs if name not in _OVERRIDES} | _OVERRIDES
        self = _native.Producer.__new__(cls, list(settings.items()), log_events, None, log)
        self._set_up(log_events, monitor)
        return self

    async def _send(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | datetime | None,
        on_append: Callable[[Delivery], object] | None = None,
    ) -> Delivery:
        """See `Producer.send`. No network thread ends the linger of the record: waiting for it does."""
        delivery = await self._append(topic, value, key, headers, partition, timestamp)
        if on_append is not None:
            on_append(delivery)
        await asyncio.sleep(0)
        return delivery.wait()

    async def _append(
        self,
        topic: Any,
        value: Any,
        key: Any,
        headers: Headers | None,
        partition: int | None,
        timestamp: int | datetime | None,
    ) -> Delivery:
        return self.produce(topic, value, key=key, headers=headers, partition=partition, timestamp=timestamp)


class MemoryTopics:
    """Topics that the handlers of one run write to, and their producer, which is made on first use."""

    def __init__(
        self,
        pairs: Callable[[], Iterable[tuple[str, str]]],
        partitions: Mapping[str, int],
        fail_delivery: FailDelivery,
        monitor: Monitor,
    ) -> None:
        """`pairs`: returns Kafka's settings of the App. `partitions`: their number by topic; other topics have one."""
        self._pairs = pairs
        self._partitions = partitions
        self._monitor = monitor
        self.refusals = refusals(fail_delivery)
        self._log: _native._TestingLog | None = None
        self._producer: MemoryProducer | None = None

    def producer(self) -> Producer:
        """Returns the producer."""
        if self._producer is None:
            self._log = _native._TestingLog(dict(self._partitions), self.refusals)  # noqa: SLF001
            self._producer = MemoryProducer(self._pairs(), self._log, self._monitor)
        return self._producer

    def poll(self) -> None:
        """Runs delivery callbacks that are due."""
        if self._producer is not None:
            self._producer.poll(0.0)

    def take(self) -> list[Message]:
        """Returns the records that were written since the last call."""
        return [] if self._log is None else [message for batch in self._log.take() for message in batch]

    def unused(self, written: Mapping[str, int]) -> list[str]:
        """Returns topics of `fail_delivery` that got no record. `written`: number of records by topic."""
        refused: Mapping[str, int] = {} if self._log is None else self._log.refused()
        return [name for name in self.refusals if not written.get(name) and not refused.get(name)]

    def close(self) -> None:
        """Closes the producer, if there is one."""
        if self._producer is not None:
            self._producer._close(0.0)  # noqa: SLF001


class OfflineClient:
    """Client of the consumer group: seeks in the records of the run. Commits succeed, and go nowhere."""

    def __init__(self, seek: Callable[[int | str | datetime], None]) -> None:
        """`seek` gets the offset, "earliest", "latest", or a time."""
        self._seek = seek

    def seek(self, topic: str, partition: int, to: int | Literal["earliest", "latest"] | datetime | None) -> None:
        """Implements `GroupClient.seek`."""
        del topic, partition  # the only ones
        self._seek(_offset(to))

    def commit_marks(self, job: Job, timeout: float) -> None:
        """Implements `GroupClient.commit_marks`."""


def _offset(to: Any) -> int | str | datetime:
    if isinstance(to, datetime) or (isinstance(to, int) and not isinstance(to, bool)) or to in ("earliest", "latest"):
        offset: int | str | datetime = to
        return offset
    raise TypeError(f'an offset is an int, "earliest", "latest" or a datetime, not {to!r}')
