"""Commands `grete groups delete`, `remove-member` and `delete-offsets`."""

import click

from grete._cli.groups.partitions import parse_partitions
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options


@click.command()
@click.argument("names", metavar="GROUP...", nargs=-1, required=True)
@confirm_options
@admin_command
def delete(session: AdminSession, names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Deletes groups without members, and all their offsets."""
    wanted = list(dict.fromkeys(names))
    if dry_run:
        for name in session.admin.describe_groups(wanted, timeout=session.timeout):
            session.done(f"group {name} would be deleted with all offsets", group=name, deleted=False)
    if not confirm(f"Delete {', '.join(wanted)} with all offsets?", yes, dry_run):
        return
    session.admin.delete_groups(wanted, timeout=session.timeout)
    for name in wanted:
        session.done(f"group {name} is deleted", group=name, deleted=True)


@click.command("remove-member")
@click.argument("group")
@click.argument("instances", metavar="INSTANCE...", nargs=-1, required=True)
@confirm_options
@admin_command
def remove_member(session: AdminSession, group: str, instances: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Removes static members from a group that have closed, and whose partitions are kept for them.

    INSTANCE is a member's group.instance.id, as `grete groups describe` shows it. A member that still runs joins again.
    """
    wanted = list(dict.fromkeys(instances))
    if dry_run:
        for instance in wanted:
            text = f"{instance} would be removed from group {group}"
            session.done(text, group=group, instance=instance, removed=False)
    if not confirm(f"Remove {', '.join(wanted)} from group {group}?", yes, dry_run):
        return
    session.admin.remove_members(group, wanted, timeout=session.timeout)
    for instance in wanted:
        session.done(f"{instance} is removed from group {group}", group=group, instance=instance, removed=True)


@click.command("delete-offsets")
@click.argument("group")
@click.option(
    "--topic",
    "-t",
    "given",
    multiple=True,
    required=True,
    metavar="TOPIC[:PARTITION,...]",
    help="Offsets to delete; repeatable.",
)
@confirm_options
@admin_command
def delete_offsets(session: AdminSession, group: str, given: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Deletes a group's offsets of topics that no member reads.

    The offsets of a queue (a share group) are deleted by topic, while it has no member.
    """
    partitions = parse_partitions(session, given)
    if dry_run:
        for topic, partition in partitions:
            text = f"offset of {topic}[{partition}] would be deleted"
            session.done(text, topic=topic, partition=partition, deleted=False)
    if not confirm(f"Delete the offsets that {group} has committed of {', '.join(given)}?", yes, dry_run):
        return
    session.admin.delete_offsets(group, partitions, timeout=session.timeout)
    for topic, partition in partitions:
        session.done(f"offset of {topic}[{partition}] is deleted", topic=topic, partition=partition, deleted=True)
