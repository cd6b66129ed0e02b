"""Groups, their members and offsets."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class GroupListing:
    """Group in a list. `type`: "classic", "consumer" (KIP-848), "share"
    (KIP-932), ...; "" from brokers that know only classic groups.

    `protocol_type` is "consumer" for consumers, "connect" for Kafka Connect, "" for a group that has only offsets.
    """

    group: str
    state: str
    type: str
    protocol_type: str


@dataclass(frozen=True, slots=True)
class MemberDescription:
    """Member of a group and its partitions. `instance` is its `group.instance.id`."""

    id: str
    instance: str | None
    client: str
    host: str
    partitions: tuple[tuple[str, int], ...]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """Group as described by its coordinator (a broker's id). `protocol`: "classic", "consumer" (KIP-848) or "share"
    (KIP-932). Several members of a share group may have one partition.
    """

    group: str
    state: str
    protocol: str
    protocol_type: str
    assignor: str
    coordinator: int
    members: tuple[MemberDescription, ...]


@dataclass(frozen=True, slots=True)
class GroupMetadata:
    """Member of a group, whose offsets a transaction commits. Brokers refuse the offsets of a member that the group has
    replaced (KIP-447).
    """

    group_id: str
    """`group.id`."""
    member_id: str = ""
    """Id of the member; empty: no member, and brokers check nothing."""
    generation: int = -1
    """Generation of the group; -1: no member."""
    instance_id: str | None = None
    """`group.instance.id` of a static member."""


@dataclass(frozen=True, slots=True)
class Membership:
    """Membership of a consumer in its group, from its network thread.

    `state` is "stable", "joining", "revoking", "assigned" (by `assign`), ... for `since` seconds. `ready`: the group's
    assignment is applied, and no change is pending. `generation` is -1 outside of the group. `instance` is its
    `group.instance.id`.
    """

    group: str
    state: str
    since: float
    ready: bool
    generation: int
    partitions: int
    instance: str | None


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of a group in a partition.

    `committed` is None if the group has committed no offset of a partition that a member has; `end` is None if the
    partition does not exist any more, or may not be described. `lag` is None in both cases. In a share group,
    `committed` is the first record that is not done (the share-partition start offset).
    """

    committed: int | None
    end: int | None
    waiting: int | None = None
    """Records of a share group that are not done, as its coordinator counts them: some behind `committed` may be. None
    in other groups, and on brokers that do not count them."""

    @property
    def lag(self) -> int | None:
        """Number of offsets still to read. None: unknown, because the committed offset or the end is."""
        if self.waiting is not None:
            return self.waiting
        return None if self.end is None or self.committed is None else max(0, self.end - self.committed)


@dataclass(frozen=True, slots=True)
class Reset:
    """Committed offset of a group before (None: there was none) and after a reset."""

    before: int | None
    after: int


def group_from_native(
    native: tuple[str, str, str, str, str, int, list[tuple[str, str | None, str, str, list[tuple[str, int]]]]],
) -> GroupDescription:
    """Converts the core's description of a group."""
    group, state, protocol, protocol_type, assignor, coordinator, members = native
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
