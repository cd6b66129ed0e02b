"""Groups, their members and offsets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupListing:
    """A group in a list. `kind`: "classic", "consumer" (KIP-848), ...; "" from brokers that know only classic ones.

    `protocol_type` is "consumer" for consumers, "connect" for Kafka Connect, "" for a group that has only offsets.
    """

    group: str
    state: str
    kind: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """A member of a group and the partitions that it has. `instance` is its `group.instance.id`."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """A group as its coordinator (a broker's id) has it. `protocol`: "classic" or "consumer" (KIP-848)."""

    group: str
    state: str
    protocol: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class Membership:
    """What a consumer is to its group, as its network thread knows it.

    `state` is "stable", "joining", "revoking", "assigned" (by `assign`), ... since so many seconds. `steady`: the
    group's assignment is taken in, and nothing is on its way. `generation` is -1 outside of the group. `instance` is
    its `group.instance.id`.
    """

    group: str
    state: str
    since: float
    steady: bool
    generation: int
    partitions: int
    instance: str | None


@dataclass(frozen=True, slots=True)
class Lag:
    """How far a group is behind in a partition. `end` and `lag` are None if the partition does not exist any more."""

    committed: int
    end: int | None

    @property
    def lag(self) -> int | None:
        """Offsets that are still to be read."""
        return None if self.end is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Reset:
    """What a group had committed (None: nothing), and has now."""

    before: int | None
    after: int


def group_of(
    told: tuple[str, str, str, str, str, int, list[tuple[str, str | None, str, str, list[tuple[str, int]]]]],
) -> GroupDescription:
    """From what the core tells."""
    group, state, protocol, protocol_type, assignor, coordinator, members = told
    return GroupDescription(
        group=group,
        state=state,
        protocol=protocol,
        protocol_type=protocol_type,
        assignor=assignor,
        coordinator=coordinator,
        members=tuple(
            MemberDescription(member, instance, client, host, tuple(partitions))
            for member, instance, client, host, partitions in members
        ),
    )
