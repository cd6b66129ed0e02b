"""Commands `grete groups list` and `grete groups describe`."""

from collections.abc import Iterable
from dataclasses import asdict

import click

from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import output
from grete._cli.terminal.table import Styled
from grete.client import GroupDescription, Lag, MemberDescription
from grete.errors import PartialResultError

_FIELDS = ("topic", "partition", "committed", "end", "lag", "member")


@click.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in it, like Stable; repeatable.")
@admin_command
def list_groups(session: AdminSession, states: tuple[str, ...]) -> None:
    """Lists all groups with their state. Exit status 1 when some brokers did not answer."""
    missing = None
    try:
        found = session.admin.groups(states, timeout=session.timeout)
    except PartialResultError as error:
        missing, found = error, error.partial  # type: ignore[assignment]
    rows = [
        (listing.group, listing.state, listing.type or "classic", listing.protocol_type or None) for listing in found
    ]
    session.rows(("group", "state", "type", "protocol_type"), rows, if_empty="there are no groups")
    if missing is not None:
        raise missing


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@admin_command
def describe(session: AdminSession, names: tuple[str, ...]) -> None:
    """Shows state, members, offsets and lag of groups."""
    for number, group in enumerate(session.admin.describe_groups(names, timeout=session.timeout).values()):
        rows = _partitions(session, group)
        if session.as_json:
            session.json(_as_json(group, rows))
            continue
        if number:
            click.echo()
        headline = (
            f"group {group.group}: {group.state}, {group.protocol} protocol"
            f"{f', {group.assignor}' if group.assignor else ''}, {output.count_of(len(group.members), 'member')}, "
            f"coordinator {group.coordinator}"
        )
        output.show(Styled(headline, "bold"))
        shown: list[tuple[object, ...]] = [(*row[:5], _named(row[5]), _id(row[5])) for row in rows]
        fields: tuple[str, ...] = (*_FIELDS, "member_id")
        if any(member.instance for member in group.members):
            fields = (*fields, "instance")
            shown = [(*cells, row[5][0].instance if row[5] else None) for cells, row in zip(shown, rows, strict=True)]
        session.rows(fields, shown, if_empty="no offsets, and no partitions assigned")
        for member in group.members:
            if not member.partitions:
                output.show(f"{member.client}@{member.host} ({member.id}) has no partition")


Row = tuple[str, int, int | None, int | None, int | None, list[MemberDescription]]


def _id(members: list[MemberDescription]) -> str | None:
    return members[0].id if len(members) == 1 else None


def _named(members: list[MemberDescription]) -> str | None:
    """Returns the member that has a partition, or the number of those that share it."""
    if len(members) > 1:
        return output.count_of(len(members), "member")
    return f"{members[0].client}@{members[0].host}" if members else None


def _partitions(session: AdminSession, group: GroupDescription) -> list[Row]:
    """Returns topic, partition, committed, end, lag and members of all partitions that are committed or assigned.
    Members of a share group have partitions in common.
    """
    owners: dict[tuple[str, int], list[MemberDescription]] = {}
    for member in group.members:
        for partition in member.partitions:
            owners.setdefault(partition, []).append(member)
    lags = session.admin.lag(group.group, timeout=session.timeout)
    rows: list[Row] = []
    for partition in sorted({*lags, *owners}):
        lag = lags.get(partition, Lag(None, None))  # absent: assigned since the group was described
        rows.append((*partition, lag.committed, lag.end, lag.lag, owners.get(partition, [])))
    return rows


def _as_json(group: GroupDescription, rows: Iterable[Row]) -> dict[str, object]:
    facts = asdict(group)
    for member in facts["members"]:
        member["partitions"] = [dict(zip(_FIELDS, partition, strict=False)) for partition in member["partitions"]]
    partitions = [dict(zip(_FIELDS, (*row[:5], _id(row[5])), strict=True)) for row in rows]
    return {**facts, "partitions": partitions}
