"""Range of dead letters to purge. Kafka deletes from a partition's beginning up to an offset, and not in between."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime

from grete._dlq.checkpoint import ReplayHistory
from grete._dlq.dead_letter import NoDeadLettersError, parse_dead_letter
from grete._dlq.reader import OffsetRange, read_range
from grete._native import Message
from grete.client import Consumer

_NOT_A_DEAD_LETTER = "it is no dead letter"


@dataclass(slots=True)
class PurgeRange:
    """Records of one partition to delete: all before `to`."""

    partition: int
    to: int
    count: int = 0
    """Number of records to delete."""
    unreplayed: int = 0
    """Number of dead letters among them that no replay has sent."""
    kept_because: str | None = None
    """Reason why the first remaining record stays; None: no record remains."""


@dataclass(frozen=True, slots=True)
class PurgeCondition:
    """Conditions for the records that may be deleted."""

    before: datetime | None
    """Delete only dead letters whose last failure was before this time; None: any."""
    replayed: bool
    """Delete only replayed dead letters."""
    foreign: bool
    """Delete also records that are no dead letters."""
    history: ReplayHistory

    def reason_to_keep(self, message: Message, cut: PurgeRange) -> str | None:
        """Returns the reason why the record stays. None: the record may be deleted, and is counted."""
        letter = parse_dead_letter(message)
        if letter is None:
            if not self.foreign:
                return _NOT_A_DEAD_LETTER
        else:
            sent = self.history.covers(letter)
            if self.replayed and not sent:
                return "it was not replayed"
            if self.before is not None and (letter.last_failed is None or letter.last_failed >= self.before):
                return "it is not that old"
            cut.unreplayed += not sent
        cut.count += 1
        return None


def plan_purge(
    consumer: Consumer, topic: str, where: Iterable[OffsetRange], condition: PurgeCondition, idle_timeout: float
) -> list[PurgeRange]:
    """Plans the deletion in each partition, up to the first record that stays.

    Raises NoDeadLettersError when the scan found other records and no dead letter.
    """
    found = [_plan_partition(consumer, topic, span, condition, idle_timeout) for span in where]
    if (
        not condition.foreign
        and any(cut.kept_because == _NOT_A_DEAD_LETTER for cut in found)
        and not any(cut.count for cut in found)
    ):
        raise NoDeadLettersError(
            f"{topic} begins with records that are no dead letters: nothing is deleted; --foreign lets them go, too"
        )
    return found


def _plan_partition(
    consumer: Consumer, topic: str, span: OffsetRange, condition: PurgeCondition, idle_timeout: float
) -> PurgeRange:
    cut = PurgeRange(span.partition, span.begin)
    for messages in read_range(consumer, topic, span, idle_timeout):
        for message in messages:
            cut.kept_because = condition.reason_to_keep(message, cut)
            if cut.kept_because is not None:
                cut.to = message.offset
                return cut
    cut.to = max(span.begin, span.end)
    return cut
