"""Command `grete dlq purge`."""

from datetime import datetime

import click

from grete._cli.dlq.options import open_consumer
from grete._cli.param_ranges import MOMENT, PARTITION
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options
from grete._cli.terminal import output
from grete._dlq.checkpoint import default_group, load_history
from grete._dlq.purge import PurgeCondition, PurgeRange, plan_purge
from grete._dlq.reader import offset_ranges


@click.command()
@click.argument("topic")
@click.option("--partition", "-p", type=PARTITION, metavar="N", help="Only this.")
@click.option(
    "--before",
    type=MOMENT,
    metavar="TIME|AGO",
    help="Only what has last failed before then, like 72h.",
)
@click.option("--replayed", is_flag=True, help="Only what was replayed to where it came from.")
@click.option("--group", metavar="NAME", help="Where it is remembered what was replayed, see grete dlq replay.")
@click.option("--foreign", is_flag=True, help="Also records that are no dead letters.")
@confirm_options
@admin_command
def purge(
    session: AdminSession,
    topic: str,
    partition: int | None,
    before: datetime | None,
    replayed: bool,
    group: str | None,
    foreign: bool,
    yes: bool,
    dry_run: bool,
) -> None:
    """Deletes dead letters of TOPIC, for good: all present ones, or those that the options select.

    Kafka deletes from the beginning of a partition up to an offset: all records behind the first one that stays remain,
    too.
    """
    past = load_history(session.admin, topic, group or default_group(topic), None, session.timeout)
    where = offset_ranges(session.admin, topic, partition, session.timeout)
    with open_consumer(session) as consumer:
        found = plan_purge(consumer, topic, where, PurgeCondition(before, replayed, foreign, past), session.timeout)
    count, unreplayed = sum(cut.count for cut in found), sum(cut.unreplayed for cut in found)
    _report_kept(topic, found)
    if count:
        never = f", {unreplayed:,} of which were never replayed" if unreplayed else ""
        if dry_run:
            _show(session, topic, found, "to_delete")
        if not confirm(f"Delete {output.count_of(count, 'record')} of {topic}{never}?", yes, dry_run):
            return
        to = {(topic, cut.partition): cut.to for cut in found if cut.count}
        session.admin.delete_records(to, timeout=session.timeout)
    _show(session, topic, found, "deleted")


def _show(session: AdminSession, topic: str, found: list[PurgeRange], heading: str) -> None:
    session.rows(
        ("partition", heading, "first_offset_left"),
        [(cut.partition, cut.count, cut.to) for cut in found if cut.count],
        if_empty=f"nothing to delete in {topic}",
    )


def _report_kept(topic: str, found: list[PurgeRange]) -> None:
    for cut in found:
        if cut.kept_because is not None:
            output.note(f"{topic}[{cut.partition}] stays from offset {cut.to} on: {cut.kept_because}")
