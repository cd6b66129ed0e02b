"""Command `grete groups reset`."""

import re

import click

from grete._cli.groups.partitions import Partition, parse_partitions
from grete._cli.param_ranges import POSITION, POSITION_HELP, POSITION_METAVAR, ParsedType, Position, offset_of
from grete._cli.positions import locate
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options
from grete._cli.terminal import output
from grete.errors import UnknownGroupError


def _parse_step(text: str) -> int:
    match = re.fullmatch(r"([+-])([0-9]+)", text)
    by = None if match is None else offset_of(match[2])
    if match is None or by is None:
        raise ValueError(f'"{text}" is no step: give a number of offsets with its sign, like -100 or +1')
    return -by if match[1] == "-" else by


@click.command()
@click.argument("group")
@click.option(
    "--topic", "-t", "given", multiple=True, metavar="TOPIC[:PARTITION,...]", help="What to reset; repeatable."
)
@click.option("--all-topics", is_flag=True, help="Everything that the group has committed.")
@click.option("--to", "target", type=POSITION, metavar=POSITION_METAVAR, help=f"New position: {POSITION_HELP}.")
@click.option(
    "--by", type=ParsedType("step", _parse_step), metavar="+N|-N", help="Instead of --to: from what is committed."
)
@confirm_options
@admin_command
def reset(
    session: AdminSession,
    group: str,
    given: tuple[str, ...],
    all_topics: bool,
    target: Position | None,
    by: int | None,
    yes: bool,
    dry_run: bool,
) -> None:
    """Resets the offsets of a group without members: to a position, or by a number of offsets. In a share group, the
    records from there on are handed out again.

    The command shows the change and asks for confirmation. Steps are limited to the log, and an offset that is not in
    the log is refused. A group that does not exist is created.
    """
    if bool(given) == all_topics:
        raise click.UsageError("say what to reset: --topic or --all-topics")
    if (target is None) == (by is None):
        raise click.UsageError("say where to: --to a position, or --by a number of offsets")
    committed = _committed(session, group) if all_topics or by is not None else {}
    partitions = sorted(committed) if all_topics else parse_partitions(session, given)
    if not partitions:
        raise click.ClickException(f"group {group} has committed no offsets")
    if isinstance(target, int):
        offsets = dict.fromkeys(partitions, target)  # an offset that is not in the log is refused
    elif target is not None:
        offsets = locate(session, partitions, target)
    else:
        offsets = _step(session, group, partitions, committed, by or 0)
    # Checked here, too, so that the question is not asked in vain; the reset itself checks again.
    planned = session.admin.reset_offsets(group, offsets, dry_run=True, timeout=session.timeout)
    rows = [(*partition, change.before, change.after) for partition, change in sorted(planned.items())]
    session.rows(("topic", "partition", "before", "after"), rows, if_empty="nothing to reset")
    topics = ", ".join(sorted({topic for topic, _ in planned}))
    if not confirm(f"Reset {output.count_of(len(planned), 'offset')} of group {group} in {topics}?", yes, dry_run):
        return
    session.admin.reset_offsets(group, offsets, timeout=session.timeout)
    count = output.count_of(len(planned), "offset")
    output.note(f"{count} of group {group} {'is' if len(planned) == 1 else 'are'} reset")


def _committed(session: AdminSession, group: str) -> dict[Partition, int]:
    """Returns the committed offsets of a group, or the start offsets of a share group."""
    try:
        protocol = session.admin.describe_group(group, timeout=session.timeout).protocol
    except UnknownGroupError:
        return {}
    if protocol != "share":
        return session.admin.committed(group, timeout=session.timeout)
    lags = session.admin.lag(group, timeout=session.timeout)
    return {at: lag.committed for at, lag in lags.items() if lag.committed is not None}


def _step(
    session: AdminSession, group: str, partitions: list[Partition], committed: dict[Partition, int], by: int
) -> dict[Partition, int]:
    for topic, partition in partitions:
        if (topic, partition) not in committed:
            raise click.ClickException(
                f"group {group} has no committed offset of {topic}[{partition}] to count from: give --to instead"
            )
    start, end = locate(session, partitions, "earliest"), locate(session, partitions, "latest")
    return {at: min(max(committed[at] + by, start[at]), end[at]) for at in partitions}
