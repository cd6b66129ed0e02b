"""Transactions of a cluster: list, describe, find hanging ones, abort (KIP-664)."""

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import UTC, datetime

from grete import _native
from grete.client import arguments
from grete.client._calls import CallThreads, awaitable
from grete.client.topics import TopicDescription
from grete.errors import KafkaError, PartialResultError, TransactionStateError

HANGING_AFTER = 900.0
"""Seconds: Kafka's default of `transaction.max.timeout.ms`. A coordinator aborts what is open for longer."""

_TIMEOUT: float | None = 60.0
_ENDED = ("Empty", "CompleteCommit", "CompleteAbort", "Dead")


@dataclass(frozen=True, slots=True)
class TransactionListing:
    """Transactional id in a list. `coordinator` is a broker's id.

    `state`: "Ongoing" (a transaction is open), "PrepareCommit", "PrepareAbort", "PrepareEpochFence" (it is being
    ended), "Empty", "CompleteCommit", "CompleteAbort" (none is open), "Dead".
    """

    transactional_id: str
    producer_id: int
    state: str
    coordinator: int

    @property
    def is_open(self) -> bool:
        """Whether there is a transaction that has not ended."""
        return self.state not in _ENDED


@dataclass(frozen=True, slots=True)
class TransactionDescription(TransactionListing):
    """Transactional id with its transaction. `timeout`: seconds (`transaction.timeout.ms` of the producer).

    `started` is None, and `partitions` is empty, unless a transaction is open.
    """

    producer_epoch: int
    timeout: float
    started: datetime | None
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class ActiveProducer:
    """Producer in the log of a partition.

    `last_sequence` and `coordinator_epoch` are -1, and `last_write` is None, where the log has none.
    `transaction_start`: first offset of its open transaction; None: none is open.
    """

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_write: datetime | None
    coordinator_epoch: int
    transaction_start: int | None


@dataclass(frozen=True, slots=True)
class HangingTransaction:
    """Transaction in a partition that no coordinator ends. It holds back readers of committed records.

    `transactional_id` is None if no coordinator knows the producer any more.
    """

    topic: str
    partition: int
    producer: ActiveProducer
    transactional_id: str | None


class TransactionAdmin:
    """Methods of `Admin` for transactions."""

    _calls: CallThreads

    def _logged(self) -> AbstractContextManager[_native.Admin]:
        raise NotImplementedError

    def all_topics(self, *, timeout: float | None = _TIMEOUT) -> list[TopicDescription]:
        """Returns all topics."""
        raise NotImplementedError

    def transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        timeout: float | None = _TIMEOUT,
    ) -> list[TransactionListing]:
        """Returns the transactional ids of all brokers, in order: those in one of `states`, of one of `producer_ids`.

        Only ids that the client may describe are listed. Raises PartialResultError, with the ids of the other brokers,
        when some do not respond; KafkaError (INVALID_REQUEST) for a state that brokers do not know.
        """
        wanted = arguments.names("transactions", states, "state")
        producers = [arguments.integer(one, "a producer id", 0, arguments.MAX_OFFSET) for one in producer_ids]
        with self._logged() as native:
            found, missing = native.transactions(wanted, producers, timeout)
        listings = [TransactionListing(*listing) for listing in found]
        if missing is not None:
            message = f"some transactions are missing from the list: {missing}"
            raise PartialResultError(message, partial=listings) from missing
        return listings

    def describe_transactions(
        self, transactional_ids: Iterable[str], *, timeout: float | None = _TIMEOUT
    ) -> dict[str, TransactionDescription]:
        """Returns the state and the open transaction of each id.

        Raises KafkaError (TRANSACTIONAL_ID_NOT_FOUND) for an id that its coordinator does not know.
        """
        ids = arguments.names("describe_transactions", transactional_ids, "transactional id")
        with self._logged() as native:
            found = native.describe_transactions(ids, timeout)
        return {one[0]: _description(one) for one in found}

    def describe_producers(
        self, partitions: Iterable[tuple[str, int]], *, timeout: float | None = _TIMEOUT
    ) -> dict[tuple[str, int], list[ActiveProducer]]:
        """Returns the idempotent and transactional producers that the leader of each partition knows.

        Raises UnknownTopicError; AuthorizationError without Read on the topic.
        """
        wanted = arguments.partitions("describe_producers", partitions)
        with self._logged() as native:
            found = native.describe_producers(wanted, timeout)
        return {at: [_producer(one) for one in producers] for at, producers in zip(wanted, found, strict=True)}

    def fence_producers(self, transactional_ids: Iterable[str], *, timeout: float | None = _TIMEOUT) -> None:
        """Aborts the open transaction of each id, and fences its producer, whose next call raises FencedError.

        An id that does not exist is created. Raises AuthorizationError without Write on the id.
        """
        ids = arguments.names("fence_producers", transactional_ids, "transactional id")
        with self._logged() as native:
            native.fence_producers(ids, timeout)

    def hanging_transactions(
        self,
        topics: Iterable[str] | None = None,
        *,
        open_for: float = HANGING_AFTER,
        timeout: float | None = _TIMEOUT,
    ) -> list[HangingTransaction]:
        """Finds transactions that no coordinator ends, in some topics or in all (None).

        Those are transactions without a write for `open_for` seconds whose coordinator has none with this partition
        and producer epoch. Give at least `transaction.max.timeout.ms` of the brokers: until then it may still end
        them.
        """
        left = arguments.time_left(timeout)
        wanted = None if topics is None else arguments.names("hanging_transactions", topics, "topic")
        described = [topic for topic in self.all_topics(timeout=left()) if wanted is None or topic.name in wanted]
        partitions = [(topic.name, partition.id) for topic in described for partition in topic.partitions]
        latest = time.time() - open_for
        candidates = [
            (at, producer)
            for at, producers in self.describe_producers(partitions, timeout=left()).items()
            for producer in producers
            if producer.transaction_start is not None
            and (producer.last_write is None or producer.last_write.timestamp() <= latest)
        ]
        if not candidates:
            return []
        listed = self.transactions(producer_ids={producer.producer_id for _, producer in candidates}, timeout=left())
        ids = {one.producer_id: one.transactional_id for one in listed}
        known: dict[str, TransactionDescription] = {}
        for transactional_id in ids.values():
            try:
                known |= self.describe_transactions([transactional_id], timeout=left())
            except KafkaError as error:
                if error.name != "TRANSACTIONAL_ID_NOT_FOUND":
                    raise  # else: the id has expired since it was listed, so no coordinator ends its transaction
        found = []
        for (topic, partition), producer in candidates:
            name = ids.get(producer.producer_id)
            description = known.get(name) if name is not None else None
            if not _ends(description, (topic, partition), producer):
                found.append(HangingTransaction(topic, partition, producer, name))
        return found

    def abort_transaction(
        self, topic: str, partition: int, start: int, *, timeout: float | None = _TIMEOUT
    ) -> ActiveProducer:
        """Aborts the transaction of a partition that begins at offset `start`, in this partition alone.

        This is for hanging transactions; `fence_producers` aborts one that its coordinator knows. Returns the producer.
        Raises TransactionStateError if no open transaction begins there; AuthorizationError without Alter on the
        cluster.
        """
        left = arguments.time_left(timeout)
        start = arguments.offset(start)
        ((at, producers),) = self.describe_producers([(topic, partition)], timeout=left()).items()
        open_at = {one.transaction_start: one for one in producers if one.transaction_start is not None}
        producer = open_at.get(start)
        if producer is None:
            others = f"open ones begin at {', '.join(map(str, sorted(open_at)))}" if open_at else "none is open there"
            raise TransactionStateError(f"no transaction of {topic}[{partition}] begins at offset {start}: {others}")
        marker = (producer.producer_id, producer.producer_epoch, max(0, producer.coordinator_epoch))
        with self._logged() as native:
            native.abort_transaction(at, marker, left())
        return producer

    transactions_async = awaitable(transactions)
    describe_transactions_async = awaitable(describe_transactions)
    describe_producers_async = awaitable(describe_producers)
    fence_producers_async = awaitable(fence_producers)
    hanging_transactions_async = awaitable(hanging_transactions)
    abort_transaction_async = awaitable(abort_transaction)


def _ends(description: TransactionDescription | None, at: tuple[str, int], producer: ActiveProducer) -> bool:
    """Returns whether the coordinator has the transaction, and so will end it."""
    return (
        description is not None
        and description.is_open
        and at in description.partitions
        and description.producer_id == producer.producer_id
    )


def _time(ms: int | None) -> datetime | None:
    return None if ms is None or ms < 0 else datetime.fromtimestamp(ms / 1000, UTC)


def _description(
    native: tuple[str, int, str, int, int | None, int, int, list[tuple[str, int]]],
) -> TransactionDescription:
    transactional_id, coordinator, state, timeout_ms, started_ms, producer_id, producer_epoch, partitions = native
    return TransactionDescription(
        transactional_id=transactional_id,
        producer_id=producer_id,
        state=state,
        coordinator=coordinator,
        producer_epoch=producer_epoch,
        timeout=timeout_ms / 1000,
        # Brokers keep the start of the last transaction.
        started=None if state in _ENDED else _time(started_ms),
        partitions=tuple(partitions),
    )


def _producer(native: tuple[int, int, int, int, int, int | None]) -> ActiveProducer:
    producer_id, producer_epoch, last_sequence, last_ms, coordinator_epoch, start = native
    return ActiveProducer(producer_id, producer_epoch, last_sequence, _time(last_ms), coordinator_epoch, start)
