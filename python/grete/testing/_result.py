"""Result of a run: marks, attempts, failures, produced records, dead letters."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from grete import payloads
from grete._dlq.dead_letter import DeadLetter as ParsedDeadLetter
from grete._dlq.dead_letter import parse_dead_letter
from grete._native import Message
from grete._plural import counted
from grete._process.callsite import PACKAGE
from grete.consumer import Consumer
from grete.errors import GreteError
from grete.payloads import Decoder
from grete.testing._records import Record
from grete.topic import Topic, name_of


class Records(list[Record]):
    """Records of one topic, in the order in which they were produced."""

    decoder: Decoder | None = None
    """Decoder of the values, as the topic or the handler's route declares them; None: unknown."""

    def values(self) -> list[bytes | None]:
        """Returns all values."""
        return [record.value for record in self]

    def keys(self) -> list[Any]:
        """Returns all keys: bytes or None."""
        return [record.key for record in self]

    def payloads(self, payload: object = None) -> list[Any]:
        """Returns all values decoded. `payload`: a type or a format, as in `App.consumer`; None: as the topic, or
        `publish=`, declares them.
        """
        topic = next((record.topic or "" for record in self), "")
        decoders = payloads.by_topic(payload, None, [topic])
        decoder = self.decoder if decoders is None else decoders[topic]
        if decoder is None and self:
            raise TypeError(
                'payloads needs a type or a format, like payloads(Order) or payloads("json"), unless the App declares '
                "the topic with its type"
            )
        return [None if record.value is None or decoder is None else decoder(record.value) for record in self]


class Produced(dict[str, Records]):
    """Produced records by topic, which is a name or a `grete.Topic`. A topic without records has an empty list."""

    def __getitem__(self, topic: str | Topic[Any, Any]) -> Records:
        name: str = name_of(topic)
        found = self.get(name)
        return Records() if found is None else found


@dataclasses.dataclass(frozen=True, slots=True)
class DeadLetter:
    """A record that went to the dead letter topic.

    Attributes:
        record: the dead letter as written, with its headers.
        topic: topic that the record came from.
        partition: partition that the record came from.
        offset: offset that the record came from.
        group: consumer group that has failed to process it.
        attempts: number of runs.
        error: name of the last error's class, without its module.
        error_class: name of the last error's class, as in the header.
        error_message: text of the last error.
    """

    record: Record
    topic: str
    partition: int | None
    offset: int | None
    group: str
    attempts: int | None
    error: str
    error_class: str
    error_message: str

    @classmethod
    def of(cls, record: Record, dead: ParsedDeadLetter) -> "DeadLetter":
        """Returns the dead letter that a record is. `dead`: what its headers say."""
        return cls(
            record,
            dead.source_topic,
            dead.source_partition,
            dead.source_offset,
            dead.group,
            dead.attempts,
            dead.error_class.rpartition(".")[2],
            dead.error_class,
            dead.error_message,
        )

    @property
    def value(self) -> bytes | None:
        """Value of the record."""
        value: bytes | None = self.record.value
        return value

    @property
    def key(self) -> bytes | None:
        """Key of the record."""
        key: Any = self.record.key
        return key  # type: ignore[no-any-return]

    @property
    def headers(self) -> Sequence[tuple[str, bytes | None]]:
        """Headers as written: the record's own, then those about the failure."""
        headers: Any = self.record.headers
        return headers  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True, slots=True)
class Failure:
    """A job that failed.

    Attributes:
        error: exception of the handler or hook, with its traceback.
        hook: "consume", "initialize", "dead_letter", "commit", "shutdown", ...
        attempt: run of the job's first unmarked record, from 1.
        offset: record at fault; None: unknown.
        outcome: "retry", "later", "bisect", "dead_letter", "skipped", "refused", "halt", or "fatal". None: the job has
            no records.
        wait: virtual seconds until the records are presented again.
    """

    error: BaseException
    hook: str
    attempt: int
    offset: int | None
    outcome: str | None
    wait: float


@dataclasses.dataclass(slots=True, kw_only=True, repr=False)
class Run:
    """Result of `consume`. Offsets are those of the partition that was read.

    Attributes:
        topic: topic that was read.
        partition: partition that was read.
        offsets: offsets of all records that were given.
        marked: offsets that handlers have processed. Dead letters are not among them.
        committed: offset that the group has committed at the end; None: nothing.
        attempts: number of runs that were given the record, by offset. Records behind the one at which a run stopped
            do not count for that run, and neither do runs whose `initialize` failed.
        dead: dead letters that were written.
        produced: records that handlers have produced, by topic, without dead letters.
        publish: topic of `publish=`; None: the route has none.
        failures: jobs that failed.
        waited: virtual seconds until the last record was done.
        consumers: consumer instances of a class, in the order of their slots; empty for functions.
    """

    topic: str
    partition: int
    offsets: list[int]
    marked: list[int] = dataclasses.field(default_factory=list)
    committed: int | None = None
    attempts: dict[int, int] = dataclasses.field(default_factory=dict)
    dead: list[DeadLetter] = dataclasses.field(default_factory=list)
    produced: Produced = dataclasses.field(default_factory=Produced)
    publish: str | None = None
    failures: list[Failure] = dataclasses.field(default_factory=list)
    waited: float = 0.0
    consumers: list[Consumer] = dataclasses.field(default_factory=list)

    def __repr__(self) -> str:
        dead = [letter.offset for letter in self.dead]
        records = counted(len(self.offsets), "record")
        text = f"<Run {self.topic}[{self.partition}] of {records}: marked {self.marked}, dead {dead}"
        text += "".join(f", {len(records)} to {topic}" for topic, records in self.produced.items())
        if self.failures:
            first = self.failures[0]
            text += f", {counted(len(self.failures), 'failure')}, the first in {first.hook}: {first.error!r}"
        return f"{text}, waited {self.waited:.3f} s>"

    @property
    def unmarked(self) -> list[int]:
        """Offsets of records that are neither processed nor dead letters: they are presented again, or have expired."""
        done = {*self.marked, *(dead.offset for dead in self.dead)}
        return [offset for offset in self.offsets if offset not in done]

    @property
    def published(self) -> list[Any]:
        """Values that went to the topic of `publish=`, decoded as that topic or the handler's return declares them."""
        if self.publish is None:
            raise GreteError("the route has no publish=: see run.produced")
        return self.produced[self.publish].payloads()

    @property
    def errors(self) -> list[BaseException]:
        """Exceptions of `failures`."""
        return [failure.error for failure in self.failures]

    @property
    def consumer(self) -> Any:
        """Only consumer instance. Raises GreteError if there is none, or more than one."""
        if len(self.consumers) != 1:
            raise GreteError(f"the run has {len(self.consumers)} consumer instances: see run.consumers")
        return self.consumers[0]

    def raise_first(self) -> None:
        """Raises the first exception of a handler or hook, with its own traceback; returns if there is none."""
        __tracebackhide__ = True
        if self.failures:
            error = self.failures[0].error
            raise error.with_traceback(_own_traceback(error.__traceback__))


def _own_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Returns the traceback without the frames of Grete before those of the handler."""
    own = traceback
    while own is not None and own.tb_frame.f_code.co_filename.startswith(PACKAGE):
        own = own.tb_next
    return own or traceback


def sort_written(
    written: Iterable[Message], dead_letter: str | None, run: Run, decoders: Mapping[str, Decoder | None]
) -> None:
    """Adds written records to the dead letters, or to the produced records, of a run. `decoders`: of values, by
    topic.
    """
    for message in written:
        record = Record.of(message)
        dead = parse_dead_letter(message) if message.topic == dead_letter else None
        if dead is None:
            if message.topic not in run.produced:
                run.produced[message.topic] = records = Records()
                records.decoder = decoders.get(message.topic)
            run.produced[message.topic].append(record)
            continue
        run.dead.append(DeadLetter.of(record, dead))
