"""Sends dead letters back to where they came from."""

import contextlib
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from grete._core import Delivery, Message
from grete.client import Consumer, Producer
from grete.dlq.letter import Letter, letter_of
from grete.dlq.pace import Pace
from grete.dlq.progress import Bookmark, History, ProgressError
from grete.dlq.reading import Span, read
from grete.dlq.selection import Selection
from grete.errors import GreteError, TimeoutError, UnknownTopicError  # noqa: A004

# Seconds between commits: what was sent in that time is sent again after a replay that was killed.
_COMMIT_EVERY = 1.0
# How long a wait for deliveries or for the next record's time goes on before the rest is looked after.
_LOOK = 0.25
# Records under way at once.
_IN_FLIGHT = 5_000
# Seconds that a topic's partitions may take to be known.
_TOPIC_TIMEOUT = 15.0


class ReplayError(GreteError):
    """A dead letter could not be replayed."""


class Break(Protocol):
    """How a person ends a replay."""

    @property
    def asked(self) -> bool:
        """Whether it is to end."""

    def sleep(self, seconds: float) -> None:
        """Returns early when it is to end."""


@dataclass(slots=True)
class Plan:
    """What a replay comes to."""

    wanted: Counter[tuple[str, str]]
    """How many, by (source topic, error class)."""
    before: int = 0
    """How many of the selection were replayed before."""

    @property
    def count(self) -> int:
        """All that are to be sent."""
        return self.wanted.total()

    def targets(self, to: str | None) -> Counter[str]:
        """How many go to which topic."""
        found: Counter[str] = Counter()
        for (source, _), count in self.wanted.items():
            found[to or source] += count
        return found


def plan(letters: Iterable[Letter], selection: Selection, past: History) -> Plan:
    """Looks at all, and sends nothing."""
    found = Plan(Counter())
    for letter in letters:
        if not selection.covers(letter):
            continue
        if past.covers(letter):
            found.before += 1
        else:
            found.wanted[letter.source, letter.error] += 1
    return found


@dataclass(frozen=True, slots=True)
class _Sent:
    """A record of the dead letter topic that is dealt with once its delivery, if it has one, is."""

    message: Message
    topic: str
    delivery: Delivery | None


class Replay:
    """One run. A record counts as replayed when the broker has acknowledged it; only such offsets are committed."""

    def __init__(
        self,
        topic: str,
        consumer: Consumer,
        producer: Producer,
        bookmark: Bookmark,
        *,
        selection: Selection,
        past: History,
        to: str | None,
        pace: Pace | None,
        patience: float,
        watch: "Callable[[Replay], None]",
    ) -> None:
        """`to` None: each record goes to the topic and partition that it came from. `pace` None: as fast as it goes.

        `watch` is called now and then; `patience` is for the next records of the dead letter topic, in seconds.
        """
        self._topic = topic
        self._consumer = consumer
        self._producer = producer
        self._bookmark = bookmark
        self._selection = selection
        self._past = past
        self._to = to
        self._pace = pace
        self._patience = patience
        self._watch = watch
        self._targets: dict[str, int] = {}
        self._in_flight: deque[_Sent] = deque()
        # Of the partition that is being read: all before it is dealt with.
        self._done = 0
        self._committed_at = time.monotonic()
        self.replayed: Counter[str] = Counter()
        """Acknowledged, by the topic that they went to."""

    @property
    def pending(self) -> int:
        """Sent, and not acknowledged."""
        return sum(1 for sent in self._in_flight if sent.delivery is not None)

    def check_targets(self, targets: Iterable[str]) -> None:
        """Raises ReplayError when one of the topics is not there: before anything is sent."""
        for target in targets:
            try:
                self._targets[target] = self._producer.partitions(target, _TOPIC_TIMEOUT)
            except UnknownTopicError as error:
                raise ReplayError(
                    f'there is no topic "{target}" to replay to: create it (grete topics create {target}), name '
                    "another with --to, or leave its records out with --source or --error"
                ) from error

    def run(self, where: Sequence[Span], stop: Break) -> None:
        """Replays what is in these spans, until it is told to stop. What was sent is waited for, whatever happens.

        Raises ReplayError for what could not be delivered; what came before that is committed.
        """
        for span in where:
            # Per partition: what was not dealt with there is not committed when the next one begins.
            self._done = span.begin
            try:
                complete = self._run(span, stop)
                self._drain()
                if complete:
                    # What follows the last record may hold none: it is dealt with, too.
                    self._done = span.end
            except KeyboardInterrupt as error:
                with contextlib.suppress(ReplayError):
                    self._settle()
                self._commit_after(error, span.partition)
                raise
            except Exception as error:
                self._drain(quietly=True)
                self._commit_after(error, span.partition)
                raise
            self._commit(span.partition)
            if stop.asked:
                return

    def _run(self, span: Span, stop: Break) -> bool:
        """Whether the span was read to its end."""
        for messages in read(self._consumer, self._topic, span, self._patience):
            for message in messages:
                letter = letter_of(message)
                if letter is None or not self._selection.covers(letter) or self._past.covers(letter):
                    self._in_flight.append(_Sent(message, "", None))
                    continue
                self._wait_for_turn(span.partition, stop)
                if stop.asked:
                    return False
                self._send(letter)
            self._tend(span.partition)
            if stop.asked:
                return False
        return True

    def _wait_for_turn(self, partition: int, stop: Break) -> None:
        while not stop.asked and len(self._in_flight) >= _IN_FLIGHT:
            self._await_first()
            self._tend(partition)
        while self._pace is not None and not stop.asked and (wait := self._pace.take()) > 0:
            self._tend(partition)
            stop.sleep(min(wait, _LOOK))

    def _send(self, letter: Letter) -> None:
        message = letter.message
        target = self._to or letter.source
        if target not in self._targets:
            self.check_targets([target])  # it has come since the plan was made
        # Back to its partition: whoever wrote it may place keys in another way than we do.
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
        self._in_flight.append(_Sent(message, target, delivery))

    def _await_first(self) -> None:
        delivery = self._in_flight[0].delivery
        if delivery is not None and not delivery.done:
            try:
                delivery.wait(_LOOK)
            except (TimeoutError, GreteError):
                pass  # the delivery itself tells what became of it

    def _tend(self, partition: int) -> None:
        """Takes note of what is acknowledged, and commits it now and then."""
        self._settle()
        self._watch(self)
        if time.monotonic() - self._committed_at >= _COMMIT_EVERY:
            self._commit(partition)

    def _settle(self) -> None:
        """Up to the first that is still under way. Raises ReplayError at the first that has failed."""
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

    def _drain(self, *, quietly: bool = False) -> None:
        """Waits for all that is under way. `quietly`: what has failed is told already."""
        while any(sent.delivery is not None and not sent.delivery.done for sent in self._in_flight):
            try:
                self._producer.flush(_LOOK)
            except TimeoutError:
                pass  # each record's own time ends it
        try:
            self._settle()
        except ReplayError:
            if not quietly:
                raise
        finally:
            # Behind one that has failed: these will be sent again, but this time they were written.
            for sent in self._in_flight:
                if sent.delivery is not None and sent.delivery.done and sent.delivery.error is None:
                    self.replayed[sent.topic] += 1
            self._in_flight.clear()

    def _commit(self, partition: int) -> None:
        self._committed_at = time.monotonic()
        if self._done > (self._bookmark.stored(partition) or 0):
            self._bookmark.store(partition, self._done)

    def _commit_after(self, error: BaseException, partition: int) -> None:
        if isinstance(error, ProgressError):
            return
        try:
            self._commit(partition)
        except GreteError as another:
            error.add_note(f"how far it had come could not be stored: {another}; what was replayed may be sent again")
