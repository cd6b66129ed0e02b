"""How many dead letters can go: Kafka deletes from a partition's beginning up to an offset, nothing in between."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from grete._core import Message
from grete.client import Consumer
from grete.dlq.letter import NoDeadLettersError, letter_of
from grete.dlq.progress import History
from grete.dlq.reading import Span, read

_FOREIGN = "it is no dead letter"


@dataclass(slots=True)
class Cut:
    """What is deleted of one partition: all before `to`."""

    partition: int
    to: int
    count: int = 0
    """Records."""
    unreplayed: int = 0
    """Of these, dead letters that no replay has sent."""
    stays: str | None = None
    """Why the first record that is left stays; None: none is left."""


@dataclass(frozen=True, slots=True)
class Condition:
    """What may go."""

    before: datetime | None
    """Only what has failed for the last time before then."""
    replayed: bool
    """Only what was replayed."""
    foreign: bool
    """Also what is no dead letter."""
    past: History

    def judge(self, message: Message, cut: Cut) -> str | None:
        """Why the record stays; None: it goes, and is counted."""
        letter = letter_of(message)
        if letter is None:
            if not self.foreign:
                return _FOREIGN
        else:
            sent = self.past.covers(letter)
            if self.replayed and not sent:
                return "it was not replayed"
            if self.before is not None and (letter.last_failed is None or letter.last_failed >= self.before):
                return "it is not that old"
            cut.unreplayed += not sent
        cut.count += 1
        return None


def cuts(consumer: Consumer, topic: str, where: Iterable[Span], condition: Condition, patience: float) -> list[Cut]:
    """What goes, of each partition, up to the first record that stays.

    Raises NoDeadLettersError when no dead letter was among what was looked at, and other records were.
    """
    found = [_cut(consumer, topic, span, condition, patience) for span in where]
    if not condition.foreign and any(cut.stays == _FOREIGN for cut in found) and not any(cut.count for cut in found):
        raise NoDeadLettersError(
            f"{topic} begins with records that are no dead letters: nothing is deleted; --foreign lets them go, too"
        )
    return found


def _cut(consumer: Consumer, topic: str, span: Span, condition: Condition, patience: float) -> Cut:
    cut = Cut(span.partition, span.begin)
    for messages in read(consumer, topic, span, patience):
        for message in messages:
            cut.stays = condition.judge(message, cut)
            if cut.stays is not None:
                cut.to = message.offset
                return cut
    cut.to = max(span.begin, span.end)
    return cut
