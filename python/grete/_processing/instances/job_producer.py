"""Producer for handlers: ties produced records to the offsets of the consumed records."""

from datetime import datetime
from typing import TYPE_CHECKING, Any

from grete import _native
from grete._native import Delivery
from grete.client import Producer
from grete.errors import GreteError

if TYPE_CHECKING:
    from grete.client.producer import Headers


class JobProducer(_native.JobProducer):
    """`grete.client.Producer` inside a consumer: `produce`, `produce_sync`, `produce_many`, `send`, and the rest.

    A job is done when all records that it produced are written. Until then no offset of the job is committed, and the
    next records of its partition (its key, its slot) wait; no worker waits with them. A record that ends as
    "not_written" or "unknown" fails the job with its `DeliveryError`, as if the handler had raised that error at the
    record where it produced. The job is then retried by the route's `retry`, and goes to its dead letter topic
    afterwards. That holds for each producing call, and even if the handler caught the error that the call raised.

    A `mark` counts when all records that its job produced before it are written, so mark after you produce. With
    `offsets="at_most_once"` there is no wait, because offsets are committed before. A thread of `background` does not
    know for which job it works, so it has to wait for its deliveries before it marks.

    On an exactly-once route the records are sent when the job has ended, in the transaction that commits its offsets.
    Calls that wait for one (`produce_sync`, `send`, `delivery.wait()`) raise TransactionStateError. A job that fails
    sends nothing. See docs/transactions.md.
    """

    @property
    def fire_and_forget(self) -> Producer:
        """The process's producer itself: its records hold back no offset, and fail no job when they are lost."""
        producer = self._producer
        if not isinstance(producer, Producer):
            raise AssertionError(f"a {type(producer).__name__} is no grete.client.Producer")
        return producer

    if not TYPE_CHECKING:  # type checkers take the overloads of `grete.Producer`

        async def send(self, topic, value, *, key=None, headers=None, partition=None, timestamp=None) -> Delivery:
            """See `Producer.send`. If it raises, or if the task is cancelled and the record is lost, the job fails,
            too.
            """
            if self._exactly_once:
                return self.produce_sync(topic, value)  # raises: a wait for the record would never end
            return await self.fire_and_forget._send(  # noqa: SLF001
                topic, value, key, headers, partition, timestamp, on_append=self._add_output
            )

    async def append(
        self,
        topic: str,
        value: bytes | None,
        key: bytes | None,
        headers: "Headers | None" = None,
        partition: int | None = None,
        timestamp: int | datetime | None = None,
    ) -> None:
        """Takes a record on the event loop. The job waits for its outcome, and the caller does not."""
        if self._exactly_once:
            self._stage(topic, value, key, headers, partition, timestamp)
            return
        taken = await self.fire_and_forget._append(topic, value, key, headers, partition, timestamp)  # noqa: SLF001
        self._add_output(taken)

    def flush(self, timeout: float | None = None) -> None:
        """See `grete.client.Producer.flush`. Raises TransactionStateError on an exactly-once route."""
        if self._exactly_once:
            self.produce_sync("", None)  # raises: a wait for the records would never end
        self.fire_and_forget.flush(timeout)

    def close(self, timeout: float | None = None) -> None:  # noqa: ARG002
        """Raises GreteError: the producer is the App's, which closes it when it stops."""
        raise GreteError("self.producer belongs to the App, which closes it when it stops: leave it open")

    def __getattr__(self, name: str) -> Any:
        # Called for what is not defined here: flush, partitions, statistics, ...
        return getattr(self._producer, name)

    def __repr__(self) -> str:
        return f"<JobProducer of {self._producer!r}>"
