"""Transactions of the low-level producer."""

import threading
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, SupportsInt

from grete._native import Message, Messages
from grete.client import arguments
from grete.client.consumer import Consumer
from grete.client.groups import GroupMetadata
from grete.errors import ForkedClientError, GreteError, NotAssignedError

if TYPE_CHECKING:
    from grete.client._calls import CallThreads

Offsets = Message | Messages | Iterable[Message | Messages] | Mapping[tuple[str, int], SupportsInt]

# Time limit in seconds of the calls that end a transaction.
_END_TIMEOUT = 60.0


class Transaction:
    """Block that is one transaction: `with producer.transaction():`, or `async with`.

    Leaving the block commits. Leaving it by an exception aborts, and the exception goes on.
    """

    __slots__ = ("_producer",)

    def __init__(self, producer: "TransactionCalls") -> None:
        self._producer = producer

    def __enter__(self) -> Self:
        self._producer.begin_transaction()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if value is None:
            self._producer.commit_transaction()
            return
        try:
            self._producer.abort_transaction()
        except ForkedClientError:
            pass  # the transaction is the parent's
        except GreteError as error:
            value.add_note(f"the transaction's abort failed, too: {error}")

    async def __aenter__(self) -> Self:
        await self._producer._begin_unless_cancelled()  # noqa: SLF001
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if value is None:
            await self._producer.commit_transaction_async()
            return
        try:
            await self._producer.abort_transaction_async()
        except ForkedClientError:
            pass  # the transaction is the parent's
        except GreteError as error:
            value.add_note(f"the transaction's abort failed, too: {error}")


class TransactionCalls:
    """Calls of `grete.client.Producer` about transactions, which need the setting `transactional.id`."""

    _calls: "CallThreads"

    if TYPE_CHECKING:

        @property
        def max_block(self) -> float: ...
        def _transaction_call(
            self,
            name: str,
            timeout: float | None,
            group: tuple[str, str, int, str | None] | None = None,
            offsets: list[tuple[str, int, int]] = ...,
        ) -> None: ...

    def transaction(self) -> Transaction:
        """Returns a block that is one transaction.

        ```
        with producer.transaction():
            producer.produce("payments", b"...")
            producer.send_offsets(messages, consumer)
        ```

        The end of the block delivers all records and commits; an exception aborts. Records of an aborted transaction
        end as "aborted". A producer has one transaction at a time. Raises TransactionAbortedError: nothing is
        committed, run the block again. FencedError: another producer has taken over. CommitUnknownError. TimeoutError:
        the commit may still succeed; `commit_transaction()` waits for its outcome.
        """
        return Transaction(self)

    def init_transactions(self, timeout: float | None = None) -> None:
        """Fences earlier producers with the same `transactional.id`, and aborts their open transaction.

        `begin_transaction` does it, too. Waits at most `timeout` seconds; None: `max.block.ms`.
        """
        self._transaction_call("init_transactions", self.max_block if timeout is None else timeout)

    def begin_transaction(self, timeout: float | None = None) -> None:
        """Begins a transaction; the first time, this initializes the producer at the coordinator.

        Waits at most `timeout` seconds; None: `max.block.ms`. Raises TransactionStateError if one is open.
        """
        self._transaction_call("begin_transaction", self.max_block if timeout is None else timeout)

    def commit_transaction(self, timeout: float | None = _END_TIMEOUT) -> None:
        """Delivers all records of the transaction and commits it.

        If the transaction has failed, this aborts it and raises TransactionAbortedError. After a TimeoutError the
        commit goes on: call it again for the outcome.
        """
        self._transaction_call("commit_transaction", timeout)

    def abort_transaction(self, timeout: float | None = _END_TIMEOUT) -> None:
        """Aborts the transaction. Records that are not sent are dropped; the others are never seen by readers of
        committed records.
        """
        self._transaction_call("abort_transaction", timeout)

    def send_offsets(
        self, offsets: Offsets, group: Consumer | GroupMetadata, timeout: float | None = _END_TIMEOUT
    ) -> None:
        """Makes the offsets of a group part of the transaction: they are committed with it, or not at all.

        `offsets`: messages that were processed, of which the group continues behind the last one of each partition. Or
        the position to continue from by (topic, partition), as `consumer.position` returns it. `group`: the consumer
        that has read them, or its `group_metadata()`.

        With a consumer, a partition that it no longer has raises NotAssignedError, and a position beyond what it has
        read ValueError. Raises TransactionAbortedError if the group has replaced the consumer.
        """
        positions = _positions(offsets)
        consumer = group if isinstance(group, Consumer) else None
        if isinstance(group, Consumer):
            group = group.group_metadata()
        elif not isinstance(group, GroupMetadata):
            raise TypeError(f"send_offsets takes a Consumer or its group_metadata(), not {type(group).__name__}")
        if not group.group_id:
            raise ValueError("send_offsets needs a group: give the consumer the setting group.id")
        if consumer is not None:
            _check_positions(positions, consumer)
        member = (group.group_id, group.member_id, group.generation, group.instance_id)
        listed = [(topic, partition, position) for (topic, partition), position in positions.items()]
        self._transaction_call("send_offsets", timeout, member, listed)

    # ---- the same for asyncio

    async def _begin_unless_cancelled(self) -> None:
        """Awaits `begin_transaction`. If the wait is cancelled, the transaction is aborted that the thread begins."""
        import asyncio

        lock = threading.Lock()
        is_begun = is_abandoned = False

        def begin() -> None:
            nonlocal is_begun
            self.begin_transaction()
            with lock:
                is_begun = True
                if not is_abandoned:
                    return
            self.abort_transaction()

        try:
            await self._calls.run(begin)
        except asyncio.CancelledError:
            with lock:
                is_abandoned = True
                aborts = is_begun
            if aborts:
                self._calls.start(self.abort_transaction)
            raise

    async def init_transactions_async(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Awaits `init_transactions`, which runs in a thread."""
        await self._calls.run(self.init_transactions, timeout)

    async def begin_transaction_async(self, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Awaits `begin_transaction`, which runs in a thread."""
        await self._calls.run(self.begin_transaction, timeout)

    async def commit_transaction_async(self, timeout: float | None = _END_TIMEOUT) -> None:  # noqa: ASYNC109
        """Awaits `commit_transaction`, which runs in a thread."""
        await self._calls.run(self.commit_transaction, timeout)

    async def abort_transaction_async(self, timeout: float | None = _END_TIMEOUT) -> None:  # noqa: ASYNC109
        """Awaits `abort_transaction`, which runs in a thread."""
        await self._calls.run(self.abort_transaction, timeout)

    async def send_offsets_async(
        self,
        offsets: Offsets,
        group: Consumer | GroupMetadata,
        timeout: float | None = _END_TIMEOUT,  # noqa: ASYNC109
    ) -> None:
        """Awaits `send_offsets`, which runs in a thread."""
        await self._calls.run(self.send_offsets, offsets, group, timeout)


def _positions(offsets: Any) -> dict[tuple[str, int], int]:
    """Returns the offset of the next record to read, by partition. Only this function adds 1 to an offset."""
    if isinstance(offsets, Mapping):
        wanted = arguments.mapping_by_partition("send_offsets", offsets, "4000")
        return {(topic, partition): arguments.offset(int(position)) for topic, partition, position in wanted}
    parts = [offsets] if isinstance(offsets, Message | Messages) else list(offsets)
    positions: dict[tuple[str, int], int] = {}
    for part in parts:
        if isinstance(part, Messages):
            if not len(part):
                continue
            position = part.next_offset
        elif isinstance(part, Message):
            position = part.offset + 1
        else:
            raise TypeError(
                "send_offsets takes messages, or {(topic, partition): position to continue from}, not "
                f"{type(part).__name__}"
            )
        key = (part.topic, part.partition)
        positions[key] = max(position, positions.get(key, 0))
    return positions


def _check_positions(positions: Mapping[tuple[str, int], int], consumer: Consumer) -> None:
    """Refuses partitions that the consumer does not have, and positions that it has not reached."""
    assigned = set(consumer.assignment())
    for (topic, partition), position in positions.items():
        if (topic, partition) not in assigned:
            raise NotAssignedError(
                f"{topic}[{partition}] is not assigned to this consumer any more: another member of the group "
                "processes its records again; abort the transaction",
                topic=topic,
                partition=partition,
            )
        read = consumer.position(topic, partition)
        if read is not None and position > read:
            raise ValueError(
                f"{topic}[{partition}]: position {position} is beyond the next record to read, {read}: give the "
                "position to continue from, as consumer.position() returns it, or the messages themselves"
            )


__all__ = ["Transaction"]
