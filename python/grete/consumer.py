"""The class that users derive from."""

from typing import TYPE_CHECKING, ClassVar

from grete._core import Message, Messages
from grete.errors import GreteError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from grete._core import Job
    from grete.client import Producer


class Consumer:
    """Processes the records of one partition. One instance lives for as long as its partition is assigned.

    Define `consume`; the other hooks are optional. Only one hook of an instance runs at a time, but not always in the
    same thread.

    Attributes:
        messages: what `consume` is to process; empty outside of it.
        topic: the instance's topic.
        partition: the instance's partition.
        attempt: counts the runs over the first unmarked record, from 1.
        lost: in `revoked`: whether the partition is already somebody else's, so that nothing can be committed any more.
    """

    messages: Messages
    topic: str
    partition: int
    attempt: int = 0
    lost: bool = False
    _job: "Job | None" = None
    _new_producer: "Callable[[], Producer] | None" = None

    # Planned names: what is not there is refused by name instead of by a bare AttributeError.
    _NOT_BUILT: ClassVar[frozenset[str]] = frozenset({"seek", "pause", "resume", "background"})

    def initialize(self) -> "Awaitable[None] | None":
        """Runs once, before the first `consume`. If it raises, it is retried on a new instance."""
        return None

    def consume(self) -> "Awaitable[None] | None":
        """Processes `self.messages`. Returning marks all as processed; raising leaves the unmarked for a retry."""
        raise NotImplementedError(f"{type(self).__qualname__} has no consume method")

    def revoked(self) -> "Awaitable[None] | None":
        """Runs once when the partition goes to another member; what is marked is committed afterwards."""
        return None

    def shutdown(self) -> "Awaitable[None] | None":
        """Runs once when the process stops; what is marked is committed afterwards."""
        return None

    @property
    def producer(self) -> "Producer":
        """The process's producer, made on first use with the App's Kafka settings and shared by all consumers.

        `produce` returns at once, so a record that a handler produced may still be on its way when the message behind
        it is committed: `produce_sync`, or `wait` on the delivery, where that matters. When the App stops, what was
        produced is delivered before the last commit; what cannot be is logged, and the App's run fails.
        """
        if self._new_producer is None:
            raise GreteError("producer works in a running App: nobody runs this consumer")
        return self._new_producer()

    def mark(self, x: Message | Messages, through: bool = False) -> int:
        """Declares a message, or messages, of this job processed. Returns how many were not marked before.

        With `through`, all records before it count as processed, too. Committed is the contiguous prefix of marks.
        """
        if self._job is None:
            raise GreteError("mark works inside consume: there is no job now whose records could be marked")
        return self._job.mark(x, through)

    def __getattr__(self, name: str) -> object:
        if name in Consumer._NOT_BUILT:
            raise AttributeError(f"Consumer.{name} is not built yet", name=name, obj=self)
        raise AttributeError(f"{type(self).__qualname__!r} object has no attribute {name!r}", name=name, obj=self)
