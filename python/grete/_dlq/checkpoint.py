"""Progress of replays of a dead letter topic, stored in consumer groups, so that Kafka keeps it.

A replay of all dead letters commits to the group `grete-dlq-replay.TOPIC`. A replay of a selection commits to a group
of that name with the selection appended: `grete-dlq-replay.TOPIC?error=TimeoutError`. So a group's name and offset
together identify the replayed records, and each replay leaves out records that any other replay has sent. Replays to
another topic (`to=` in the name) are counted separately: after a trial replay to another topic, the real one is still
possible.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grete._dlq.dead_letter import DeadLetter
from grete._dlq.filter import DeadLetterFilter
from grete.client import Admin, Consumer
from grete.errors import GreteError


class CheckpointError(GreteError):
    """A replay cannot continue from the offsets that a group has committed."""


def default_group(topic: str) -> str:
    """Returns the default group of replays of this topic."""
    return f"grete-dlq-replay.{topic}"


def group_for(base: str, selection: DeadLetterFilter, to: str | None) -> str:
    """Returns the group that stores the progress of a replay of this selection."""
    query = selection.to_query(to=to)
    return f"{base}?{query}" if query else base


@dataclass(frozen=True, slots=True)
class ReplayedOffsets:
    """Progress of one group: all letters of its selection before these offsets, by partition, were replayed."""

    selection: DeadLetterFilter
    before: Mapping[int, int]

    def covers(self, letter: DeadLetter) -> bool:
        """Returns whether the dead letter was replayed."""
        message = letter.message
        return message.offset < self.before.get(message.partition, 0) and self.selection.matches(letter)


@dataclass(frozen=True, slots=True)
class ReplayHistory:
    """All replays of a topic to one destination."""

    groups: Mapping[str, ReplayedOffsets]

    def covers(self, letter: DeadLetter) -> bool:
        """Returns whether the dead letter was replayed."""
        return any(past.covers(letter) for past in self.groups.values())

    def before(self, group: str) -> Mapping[int, int]:
        """Returns the offsets that this group has committed, by partition."""
        past = self.groups.get(group)
        return {} if past is None else past.before


def load_history(admin: Admin, topic: str, base: str, to: str | None, timeout: float) -> ReplayHistory:
    """Loads the progress of all replays so far. Raises PartialResultError when some brokers do not list their
    groups.
    """
    found: dict[str, ReplayedOffsets] = {}
    for listing in admin.groups(timeout=timeout):
        name, mark, query = listing.group.partition("?")
        if name != base:
            continue
        try:
            selection, extra = DeadLetterFilter.from_query(query) if mark else (DeadLetterFilter(), {})
        except (ValueError, TypeError):
            continue  # another application's group
        if extra.pop("to", None) != to or extra:
            continue
        committed = admin.committed(listing.group, timeout=timeout)
        own_offsets = {partition: offset for (name, partition), offset in committed.items() if name == topic}
        found[listing.group] = ReplayedOffsets(selection, own_offsets)
    return ReplayHistory(found)


def check_no_members(admin: Admin, group: str, timeout: float) -> None:
    """Raises CheckpointError when the group has members: it belongs to a consumer, and would refuse our offsets."""
    members = admin.describe_group(group, timeout=timeout).members
    if members:
        first = members[0]
        raise CheckpointError(
            f"group {group} has members ({first.client}@{first.host}): a replay's progress needs a group of its own, "
            "name another with --group"
        )


class Checkpoint:
    """Commits one replay's progress, and detects commits of others to its group."""

    def __init__(self, consumer: Consumer, topic: str, group: str, before: Mapping[int, int]) -> None:
        """`consumer` has the `group.id` `group`. `before`: the offsets that the group has committed, by partition."""
        self._consumer = consumer
        self._topic = topic
        self.group = group
        self._committed: dict[int, int | None] = dict(before)

    def committed(self, partition: int) -> int | None:
        """Returns the committed offset; None if there is none."""
        return self._committed.get(partition)

    def commit(self, partition: int, offset: int) -> None:
        """Commits `offset`: all records before it are done. Raises CheckpointError when the group's offset has changed
        meanwhile.
        """
        at = self._topic, partition
        expected = self._committed.get(partition)
        # Two replays at once would send everything twice. Kafka has no compare-and-set for offsets, so this check
        # leaves a gap of one commit: that is enough to end a second replay after about a second.
        found = self._consumer.committed([at])[at]
        if found != expected:
            raise CheckpointError(
                f"group {self.group} was at {'no offset' if expected is None else f'offset {expected}'} of "
                f"{self._topic}[{partition}] and is at {'none' if found is None else found} now: another replay is at "
                "work, or the group was reset. This replay stops; records that both have sent were sent twice"
            )
        self._consumer.commit({at: offset})
        self._committed[partition] = offset


def check_within_log(topic: str, group: str, before: Mapping[int, int], ends: Iterable[tuple[int, int]]) -> None:
    """Raises CheckpointError when a group is beyond a partition's end: the topic was deleted and created again."""
    for partition, end in ends:
        if before.get(partition, 0) > end:
            raise CheckpointError(
                f"group {group} is at offset {before[partition]} of {topic}[{partition}], which ends at {end}: the "
                f"topic was made anew since the last replay. Forget that one: grete groups delete '{group}'"
            )
