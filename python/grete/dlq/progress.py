"""How far replays of a dead letter topic have come: remembered in consumer groups, so that Kafka keeps it.

A replay of everything commits to the group `grete-dlq-replay.TOPIC`; one of a selection to a group of that name with
the selection behind it: `grete-dlq-replay.TOPIC?error=TimeoutError`. So a group's name and offset say together which
records were replayed, and each replay leaves out what any other has sent. Replays to another topic (`to=` in the name)
are counted apart: who has tried a replay elsewhere can still do the real one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from grete.client import Admin, Consumer
from grete.dlq.letter import Letter
from grete.dlq.selection import Selection
from grete.errors import GreteError


class ProgressError(GreteError):
    """What a group has committed cannot be gone on from."""


def default_name(topic: str) -> str:
    """The group of replays of this topic."""
    return f"grete-dlq-replay.{topic}"


def group_name(base: str, selection: Selection, to: str | None) -> str:
    """The group that remembers a replay of this selection."""
    query = selection.query(to=to)
    return f"{base}?{query}" if query else base


@dataclass(frozen=True, slots=True)
class Past:
    """What one group remembers: of its selection, all before these offsets, by partition."""

    selection: Selection
    before: Mapping[int, int]

    def covers(self, letter: Letter) -> bool:
        """Whether the dead letter was replayed."""
        message = letter.message
        return message.offset < self.before.get(message.partition, 0) and self.selection.covers(letter)


@dataclass(frozen=True, slots=True)
class History:
    """All replays of a topic to one destination."""

    groups: Mapping[str, Past]

    def covers(self, letter: Letter) -> bool:
        """Whether the dead letter was replayed."""
        return any(past.covers(letter) for past in self.groups.values())

    def before(self, group: str) -> Mapping[int, int]:
        """What this group has committed, by partition."""
        past = self.groups.get(group)
        return {} if past is None else past.before


def history(admin: Admin, topic: str, base: str, to: str | None, timeout: float) -> History:
    """What was replayed so far. Raises PartialResultError when some brokers do not say which groups they have."""
    found: dict[str, Past] = {}
    for listing in admin.groups(timeout=timeout):
        name, mark, query = listing.group.partition("?")
        if name != base:
            continue
        try:
            selection, beside = Selection.parse(query) if mark else (Selection(), {})
        except (ValueError, TypeError):
            continue  # somebody else's group
        if beside.pop("to", None) != to or beside:
            continue
        committed = admin.committed(listing.group, timeout=timeout)
        mine = {partition: offset for (name, partition), offset in committed.items() if name == topic}
        found[listing.group] = Past(selection, mine)
    return History(found)


def check_alone(admin: Admin, group: str, timeout: float) -> None:
    """Raises ProgressError when the group has members: it is no replay's, and would not take our offsets."""
    members = admin.describe_group(group, timeout=timeout).members
    if members:
        first = members[0]
        raise ProgressError(
            f"group {group} has members ({first.client}@{first.host}): a replay's progress needs a group of its own, "
            "name another with --group"
        )


class Bookmark:
    """Commits one replay's progress, and notices when somebody else does, too."""

    def __init__(self, consumer: Consumer, topic: str, group: str, before: Mapping[int, int]) -> None:
        """`consumer` has the `group.id` `group`; `before`: what the group has committed, by partition."""
        self._consumer = consumer
        self._topic = topic
        self.group = group
        self._stored: dict[int, int | None] = dict(before)

    def stored(self, partition: int) -> int | None:
        """What is committed."""
        return self._stored.get(partition)

    def store(self, partition: int, offset: int) -> None:
        """Commits that all before `offset` is done with. Raises ProgressError when the group has moved by itself."""
        at = self._topic, partition
        expected = self._stored.get(partition)
        # Two replays at once would send everything twice. Kafka compares and sets nothing, so that this leaves a gap of
        # one commit: enough to end a second replay after about a second.
        found = self._consumer.committed([at])[at]
        if found != expected:
            raise ProgressError(
                f"group {self.group} was at {'no offset' if expected is None else f'offset {expected}'} of "
                f"{self._topic}[{partition}] and is at {'none' if found is None else found} now: another replay is at "
                "work, or somebody has reset the group. This one stops; what both have sent was sent twice"
            )
        self._consumer.commit({at: offset})
        self._stored[partition] = offset


def check_within(topic: str, group: str, before: Mapping[int, int], ends: Iterable[tuple[int, int]]) -> None:
    """Raises ProgressError when a group is beyond a partition's end: the topic is not the one that was replayed."""
    for partition, end in ends:
        if before.get(partition, 0) > end:
            raise ProgressError(
                f"group {group} is at offset {before[partition]} of {topic}[{partition}], which ends at {end}: the "
                f"topic was made anew since the last replay. Forget that one: grete groups delete '{group}'"
            )
