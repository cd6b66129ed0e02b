"""Offsets of positions, and notes about positions that are not in the log."""

from collections.abc import Mapping, Sequence

from grete._cli.param_ranges import FromEnd, Position
from grete._cli.session import AdminSession
from grete._cli.terminal import output

Partition = tuple[str, int]


def locate(session: AdminSession, partitions: Sequence[Partition], position: Position) -> dict[Partition, int]:
    """Returns the offset of a position in each partition. Numbers are limited to the log, with a note."""

    def at(where: Position) -> dict[Partition, int]:
        return session.admin.offsets([(*partition, where) for partition in partitions], timeout=session.timeout)  # type: ignore[misc]

    if isinstance(position, (int, FromEnd)):
        return limit(position, at("earliest"), at("latest"))
    return at(position)


def limit(
    position: int | FromEnd, starts: Mapping[Partition, int], ends: Mapping[Partition, int]
) -> dict[Partition, int]:
    """Returns the offset of the position in each partition, within the log. A note on standard error names an offset
    that is not in the log, and the offset that is taken instead.
    """
    if isinstance(position, FromEnd):
        return {at: max(start, ends[at] - position.count) for at, start in starts.items()}
    beyond = [at for at, end in ends.items() if position > end]
    _note(position, "beyond the end", "ends at", beyond, ends)
    if position:  # offset 0 is the usual way to say "from the beginning"
        older = [at for at, start in starts.items() if position < start]
        _note(position, "before the first record", "begins at", older, starts)
    return {at: min(max(start, position), ends[at]) for at, start in starts.items()}


def _note(offset: int, what: str, verb: str, partitions: Sequence[Partition], taken: Mapping[Partition, int]) -> None:
    if not partitions:
        return
    topic, first = partitions[0]
    if len(partitions) == 1:
        where = f"{topic}[{first}], which {verb} {taken[topic, first]}: that is taken instead"
    else:
        where = (
            f"{len(partitions):,} partitions of {topic} (the first, {topic}[{first}], {verb} {taken[topic, first]}): "
            "these offsets are taken instead"
        )
    output.note(f"offset {offset} is {what} of {where}")
