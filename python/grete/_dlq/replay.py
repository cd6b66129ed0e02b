"""Replay of dead letters to their source topics."""

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from grete._dlq.checkpoint import Checkpoint, CheckpointError, ReplayHistory
from grete._dlq.dead_letter import DeadLetter, parse_dead_letter
from grete._dlq.filter import DeadLetterFilter
from grete._dlq.rate_limiter import RateLimiter
from grete._dlq.reader import OffsetRange, read_range
from grete._native import Delivery, Message
from grete.client import Consumer, Producer
from grete.errors import GreteError, TimeoutError, UnknownTopicError  # noqa: A004

# Seconds between commits. After a killed replay, the records sent in that time are sent again.
_COMMIT_EVERY = 1.0
# Longest wait in seconds for deliveries or for the rate limiter before other work gets its turn.
_POLL_INTERVAL = 0.25
# Limit of records in flight.
_IN_FLIGHT = 5_000
# Longest wait in seconds for a topic's number of partitions.
_TOPIC_TIMEOUT = 15.0


class ReplayError(GreteError):
    """A dead letter could not be replayed."""


class StopRequest(Protocol):
    """Request of the user to stop a replay."""

    @property
    def requested(self) -> bool:
        """Whether the replay should stop."""

    def sleep(self, seconds: float) -> None:
        """Sleeps, and returns early when the replay should stop."""


@dataclass(slots=True)
class ReplayPlan:
    """Records that a replay would send."""

    counts: Counter[tuple[str, str]]
    """Number of records by (source topic, error class)."""
    before: int = 0
    """Number of records of the selection that were replayed before."""

    @property
    def count(self) -> int:
        """Number of all records to send."""
        return self.counts.total()

    def targets(self, to: str | None) -> Counter[str]:
        """Returns the number of records by target topic."""
        found: Counter[str] = Counter()
        for (source, _), count in self.counts.items():
            found[to or source] += count
        return found


def plan_replay(letters: Iterable[DeadLetter], selection: DeadLetterFilter, past: ReplayHistory) -> ReplayPlan:
    """Counts the records of a replay, and sends nothing."""
    found = ReplayPlan(Counter())
    for letter in letters:
        if not selection.matches(letter):
            continue
        if past.covers(letter):
            found.before += 1
        else:
            found.counts[letter.source_topic, letter.error_class] += 1
    return found


@dataclass(frozen=True, slots=True)
class _InFlight:
    """Record of the dead letter topic that is done once its delivery, if it has one, is settled."""

    message: Message
    topic: str
    delivery: Delivery | None


class Replay:
    """One run of a replay. A record counts as replayed when the broker has acknowledged it; only such offsets are
    committed.
    """

    def __init__(
        self,
        topic: str,
        consumer: Consumer,
        producer: Producer,
        checkpoint: Checkpoint,
        *,
        selection: DeadLetterFilter,
        history: ReplayHistory,
        to: str | None,
        rate_limiter: RateLimiter | None,
        idle_timeout: float,
        on_progress: "Callable[[Replay], None]",
    ) -> None:
        """`to` None: each record goes to the topic and partition that it came from. `rate_limiter` None: no limit.

        `on_progress` is called regularly. `idle_timeout`: longest wait in seconds for the next records of the dead
        letter topic.
        """
        self._topic = topic
        self._consumer = consumer
        self._producer = producer
        self._checkpoint = checkpoint
        self._selection = selection
        self._history = history
        self._to = to
        self._rate_limiter = rate_limiter
        self._idle_timeout = idle_timeout
        self._on_progress = on_progress
        self._targets: dict[str, int] = {}
        self._in_flight: deque[_InFlight] = deque()
        # In the partition that is being read, all records before this offset are done.
        self._done = 0
        self._committed_at = time.monotonic()
        self.replayed: Counter[str] = Counter()
        """Number of acknowledged records by target topic."""

    @property
    def pending(self) -> int:
        """Number of sent records that are not acknowledged."""
        return sum(1 for sent in self._in_flight if sent.delivery is not None)

    def check_targets(self, targets: Iterable[str]) -> None:
        """Raises ReplayError when a target topic does not exist, before any record is sent."""
        for target in targets:
            try:
                self._targets[target] = self._producer.partitions(target, _TOPIC_TIMEOUT)
            except UnknownTopicError as error:
                raise ReplayError(
                    f'there is no topic "{target}" to replay to: create it (grete topics create {target}), name '
                    "another with --to, or leave its records out with --source or --error"
                ) from error

    def run(self, where: Sequence[OffsetRange], stop: StopRequest) -> None:
        """Replays the records of these ranges, until `stop` is requested. Always waits for records that were sent.

        Raises ReplayError for a record that could not be delivered; records before it are committed.
        """
        for span in where:
            # Per partition: records that were not done in the last one must not be committed with the next one.
            self._done = span.begin
            try:
                complete = self._run(span, stop)
                self._drain()
                if complete:
                    # Offsets after the last record may hold no record: they are done, too.
                    self._done = span.end
            except KeyboardInterrupt as error:
                with contextlib.suppress(ReplayError):
                    self._collect_acknowledged()
                self._commit_after(error, span.partition)
                raise
            except Exception as error:
                self._drain(ignore_errors=True)
                self._commit_after(error, span.partition)
                raise
            self._commit(span.partition)
            if stop.requested:
                return

    def _run(self, span: OffsetRange, stop: StopRequest) -> bool:
        """Returns whether the range was read to its end."""
        for messages in read_range(self._consumer, self._topic, span, self._idle_timeout):
            for message in messages:
                letter = parse_dead_letter(message)
                if letter is None or not self._selection.matches(letter) or self._history.covers(letter):
                    self._in_flight.append(_InFlight(message, "", None))
                    continue
                self._wait_for_capacity(span.partition, stop)
                if stop.requested:
                    return False
                self._send(letter)
            self._poll(span.partition)
            if stop.requested:
                return False
        return True

    def _wait_for_capacity(self, partition: int, stop: StopRequest) -> None:
        while not stop.requested and len(self._in_flight) >= _IN_FLIGHT:
            self._await_first()
            self._poll(partition)
        while self._rate_limiter is not None and not stop.requested and (wait := self._rate_limiter.acquire()) > 0:
            self._poll(partition)
            stop.sleep(min(wait, _POLL_INTERVAL))

    def _send(self, letter: DeadLetter) -> None:
        message = letter.message
        target = self._to or letter.source_topic
        if target not in self._targets:
            self.check_targets([target])  # the topic was not in the plan: its record arrived later
        # Back to its partition: the first producer may have placed keys by another rule than this one.
        partition = letter.source_partition if self._to is None else None
        if partition is not None and partition >= self._targets[target]:
            partition = None
        delivery = self._producer.produce(
            target,
            message.value,
            key=message.key,
            headers=letter.headers_to_replay(),
            partition=partition,
            timestamp=message.timestamp if message.timestamp >= 0 else None,
        )
        self._in_flight.append(_InFlight(message, target, delivery))

    def _await_first(self) -> None:
        delivery = self._in_flight[0].delivery
        if delivery is not None and not delivery.done:
            try:
                delivery.wait(_POLL_INTERVAL)
            except (TimeoutError, GreteError):
                pass  # the delivery itself has the outcome

    def _poll(self, partition: int) -> None:
        """Collects acknowledged records, and commits at intervals."""
        self._collect_acknowledged()
        self._on_progress(self)
        if time.monotonic() - self._committed_at >= _COMMIT_EVERY:
            self._commit(partition)

    def _collect_acknowledged(self) -> None:
        """Collects records up to the first that is still in flight. Raises ReplayError at the first that has failed."""
        while self._in_flight:
            sent = self._in_flight[0]
            if sent.delivery is not None:
                if not sent.delivery.done:
                    return
                if (error := sent.delivery.error) is not None:
                    place = f"{self._topic}[{sent.message.partition}] offset {sent.message.offset}"
                    raise ReplayError(f"dead letter {place} was not written to {sent.topic}: {error}") from error
                self.replayed[sent.topic] += 1
            self._done = sent.message.offset + 1
            self._in_flight.popleft()

    def _drain(self, *, ignore_errors: bool = False) -> None:
        """Waits for all records in flight. `ignore_errors`: failures were reported already."""
        while any(sent.delivery is not None and not sent.delivery.done for sent in self._in_flight):
            try:
                self._producer.flush(_POLL_INTERVAL)
            except TimeoutError:
                pass  # each record's own timeout ends the loop
        try:
            self._collect_acknowledged()
        except ReplayError:
            if not ignore_errors:
                raise
        finally:
            # Records behind a failed one will be sent again, but this time they were written.
            for sent in self._in_flight:
                if sent.delivery is not None and sent.delivery.done and sent.delivery.error is None:
                    self.replayed[sent.topic] += 1
            self._in_flight.clear()

    def _commit(self, partition: int) -> None:
        self._committed_at = time.monotonic()
        if self._done > (self._checkpoint.committed(partition) or 0):
            self._checkpoint.commit(partition, self._done)

    def _commit_after(self, error: BaseException, partition: int) -> None:
        if isinstance(error, CheckpointError):
            return
        try:
            self._commit(partition)
        except GreteError as another:
            error.add_note(f"the progress could not be stored: {another}; replayed records may be sent again")
