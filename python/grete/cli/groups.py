"""`grete groups`."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import click

from grete.cli.session import Session, admin_command, confirm
from grete.client import GroupDescription, MemberDescription
from grete.errors import PartialResultError

Partition = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Shift:
    """So many offsets on, or back."""

    by: int


Target = int | Literal["earliest", "latest"] | datetime | Shift


class TargetType(click.ParamType[Target]):
    """earliest, latest, an offset, +n, -n or an ISO 8601 time."""

    name = "target"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Target:
        """What was given, understood."""
        text = str(value)
        if text in ("earliest", "latest"):
            return text  # type: ignore[return-value]
        if re.fullmatch(r"[+-][0-9]+", text):
            return Shift(int(text))
        if re.fullmatch(r"[0-9]+", text):
            return int(text)
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            self.fail(
                f'"{text}" is neither earliest, latest, an offset, a step like -100 nor a time like 2026-01-31T12:00',
                param,
                ctx,
            )


@click.group()
def groups() -> None:
    """Consumer groups: list, describe, reset, delete, remove-member... Exit status 1: it could not be done."""


@groups.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only groups in it, like Stable; repeatable.")
@admin_command
def list_groups(session: Session, states: tuple[str, ...]) -> None:
    """Lists all groups with their state. Exit status 1 when some brokers did not answer."""
    missing = None
    try:
        found = session.admin.groups(states, timeout=session.timeout)
    except PartialResultError as error:
        missing, found = error, error.partial  # type: ignore[assignment]
    rows = [
        (listing.group, listing.state, listing.kind or "classic", listing.protocol_type or None) for listing in found
    ]
    session.rows(("group", "state", "kind", "members_are"), rows, nothing="there are no groups")
    if missing is not None:
        raise missing


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@admin_command
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Shows state, members, offsets and lag of groups."""
    for number, group in enumerate(session.admin.describe_groups(names, timeout=session.timeout).values()):
        rows = _partitions(session, group)
        if session.as_json:
            session.json(_as_json(group, rows))
            continue
        if number:
            click.echo()
        click.echo(
            f"group {group.group}: {group.state}, {group.protocol} protocol"
            f"{f', {group.assignor}' if group.assignor else ''}, {len(group.members)} members, "
            f"coordinator {group.coordinator}"
        )
        shown: list[tuple[object, ...]] = [
            (*row[:5], f"{row[5].client}@{row[5].host}" if row[5] else None, row[5].id if row[5] else None)
            for row in rows
        ]
        fields: tuple[str, ...] = ("topic", "partition", "committed", "end", "lag", "member", "member_id")
        if any(member.instance for member in group.members):
            fields = (*fields, "instance")
            shown = [(*cells, row[5].instance if row[5] else None) for cells, row in zip(shown, rows, strict=True)]
        session.rows(fields, shown, nothing="no offsets, and no partitions assigned")
        for member in group.members:
            if not member.partitions:
                click.echo(f"{member.client}@{member.host} ({member.id}) has no partition")


Row = tuple[str, int, int | None, int | None, int | None, MemberDescription | None]


def _partitions(session: Session, group: GroupDescription) -> list[Row]:
    """Topic, partition, committed, end, lag, member of all that is committed or assigned."""
    owners = {partition: member for member in group.members for partition in member.partitions}
    lags = session.admin.lag(group.group, timeout=session.timeout)
    uncommitted = sorted(set(owners) - set(lags))
    ends = session.admin.offsets([(*partition, "latest") for partition in uncommitted], timeout=session.timeout)
    rows: list[Row] = []
    for partition in sorted({*lags, *owners}):
        lag = lags.get(partition)
        if lag is None:
            rows.append((*partition, None, ends[partition], None, owners[partition]))
        else:
            rows.append((*partition, lag.committed, lag.end, lag.lag, owners.get(partition)))
    return rows


def _as_json(group: GroupDescription, rows: Iterable[Row]) -> dict[str, object]:
    return {
        "group": group.group,
        "state": group.state,
        "protocol": group.protocol,
        "protocol_type": group.protocol_type,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [
            {
                "id": member.id,
                "instance": member.instance,
                "client": member.client,
                "host": member.host,
                "partitions": [{"topic": topic, "partition": partition} for topic, partition in member.partitions],
            }
            for member in group.members
        ],
        "partitions": [
            {
                "topic": topic,
                "partition": partition,
                "committed": committed,
                "end": end,
                "lag": lag,
                "member": member.id if member else None,
            }
            for topic, partition, committed, end, lag, member in rows
        ],
    }


@groups.command()
@click.argument("group")
@click.option(
    "--topic", "-t", "given", multiple=True, metavar="TOPIC[:PARTITION,...]", help="What to reset; repeatable."
)
@click.option("--all-topics", is_flag=True, help="Everything that the group has committed.")
@click.option(
    "--to", "target", required=True, type=TargetType(), metavar="earliest|latest|OFFSET|TIME|+N|-N", help="Where to."
)
@click.option("--execute", is_flag=True, help="Do it. Without this the command only shows what it would do.")
@admin_command
def reset(
    session: Session, group: str, given: tuple[str, ...], all_topics: bool, target: Target, execute: bool
) -> None:
    """Sends a group without members elsewhere. Where: earliest, latest, an offset, a time, or so many on or back.

    Like Kafka's own tool, it only shows what it would do, unless --execute says to do it. -N and +N count from what is
    committed, and end at the ends of the log. A group that does not exist is made.
    """
    if bool(given) == all_topics:
        raise click.UsageError("say what to reset: --topic or --all-topics")
    committed = session.admin.committed(group, timeout=session.timeout) if all_topics else {}
    partitions = sorted(committed) if all_topics else _given(session, given)
    if not partitions:
        raise click.ClickException(f"group {group} has committed no offsets")
    done = session.admin.reset_offsets(
        group, _places(session, group, partitions, target), dry_run=not execute, timeout=session.timeout
    )
    rows = [(*partition, change.before, change.after) for partition, change in sorted(done.items())]
    session.rows(("topic", "partition", "before", "after"), rows, nothing="nothing to reset")
    if not execute:
        click.echo("nothing is changed yet: say --execute to do it", err=True)


def _given(session: Session, given: Iterable[str]) -> list[Partition]:
    """The partitions that TOPIC[:PARTITION,...] mean."""
    wanted: dict[Partition, None] = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]+(,[0-9]+)*", numbers)):
            raise click.UsageError(f'--topic takes TOPIC or TOPIC:0,1,2, not "{text}"')
        if colon:
            wanted.update(((topic, int(number)), None) for number in numbers.split(","))
        else:
            described = session.admin.describe_topic(topic, timeout=session.timeout)
            wanted.update(((topic, partition.id), None) for partition in described.partitions)
    return list(wanted)


def _places(
    session: Session, group: str, partitions: list[Partition], target: Target
) -> dict[Partition, int | Literal["earliest", "latest"] | datetime]:
    if not isinstance(target, Shift):
        return dict.fromkeys(partitions, target)
    committed = session.admin.committed(group, timeout=session.timeout)
    for topic, partition in partitions:
        if (topic, partition) not in committed:
            raise click.ClickException(
                f"group {group} has committed nothing of {topic}[{partition}] to count from: name a place instead"
            )
    start = session.admin.offsets([(*partition, "earliest") for partition in partitions], timeout=session.timeout)
    end = session.admin.offsets([(*partition, "latest") for partition in partitions], timeout=session.timeout)
    return {at: min(max(committed[at] + target.by, start[at]), end[at]) for at in partitions}


@groups.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def delete(session: Session, names: tuple[str, ...], yes: bool) -> None:
    """Deletes groups without members, and all their offsets."""
    confirm(f"Delete {', '.join(dict.fromkeys(names))} with all offsets?", yes)
    session.admin.delete_groups(names, timeout=session.timeout)
    for name in dict.fromkeys(names):
        session.done(f"group {name} is deleted", group=name, deleted=True)


@groups.command("remove-member")
@click.argument("group")
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def remove_member(session: Session, group: str, instances: tuple[str, ...], yes: bool) -> None:
    """Puts static members out of a group: those that have closed, and whose partitions wait for them.

    INSTANCE is a member's group.instance.id, as `grete groups describe` shows it. One that still runs joins again.
    """
    wanted = list(dict.fromkeys(instances))
    confirm(f"Put {', '.join(wanted)} out of group {group}?", yes)
    session.admin.remove_members(group, wanted, timeout=session.timeout)
    for instance in wanted:
        session.done(f"{instance} is out of group {group}", group=group, instance=instance, removed=True)


@groups.command("delete-offsets")
@click.argument("group")
@click.option(
    "--topic",
    "-t",
    "given",
    multiple=True,
    required=True,
    metavar="TOPIC[:PARTITION,...]",
    help="What to forget; repeatable.",
)
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def delete_offsets(session: Session, group: str, given: tuple[str, ...], yes: bool) -> None:
    """Forgets offsets of topics that no member reads."""
    partitions = _given(session, given)
    confirm(f"Forget what {group} has committed of {', '.join(given)}?", yes)
    session.admin.delete_offsets(group, partitions, timeout=session.timeout)
    for topic, partition in partitions:
        session.done(f"{topic}[{partition}] is forgotten", topic=topic, partition=partition, deleted=True)
