"""`grete dlq purge`."""

from datetime import datetime

import click

from grete.cli.dlq.options import TimeType, reader
from grete.cli.session import Session, admin_command, confirm
from grete.dlq.progress import default_name, history
from grete.dlq.purge import Condition, Cut, cuts
from grete.dlq.reading import spans


@click.command()
@click.argument("topic")
@click.option("--partition", "-p", type=click.IntRange(min=0), metavar="N", help="Only this.")
@click.option(
    "--before",
    type=TimeType(),
    metavar="TIME|AGO",
    help="Only what has last failed before then, like 72h.",
)
@click.option("--replayed", is_flag=True, help="Only what was replayed to where it came from.")
@click.option("--group", metavar="NAME", help="Where it is remembered what was replayed, see grete dlq replay.")
@click.option("--foreign", is_flag=True, help="Also records that are no dead letters.")
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def purge(
    session: Session,
    topic: str,
    partition: int | None,
    before: datetime | None,
    replayed: bool,
    group: str | None,
    foreign: bool,
    yes: bool,
) -> None:
    """Deletes dead letters of TOPIC, for good: all that are there now, or those that the options leave.

    Kafka deletes from the beginning of a partition: everything behind the first record that stays, stays, too.
    """
    past = history(session.admin, topic, group or default_name(topic), None, session.timeout)
    where = spans(session.admin, topic, partition, session.timeout)
    with reader(session) as consumer:
        found = cuts(consumer, topic, where, Condition(before, replayed, foreign, past), session.timeout)
    count, unreplayed = sum(cut.count for cut in found), sum(cut.unreplayed for cut in found)
    _say_what_stays(topic, found)
    if count:
        never = f", {unreplayed:,} of which were never replayed" if unreplayed else ""
        confirm(f"Delete {count:,} records of {topic}{never}?", yes)
        to = {(topic, cut.partition): cut.to for cut in found if cut.count}
        session.admin.delete_records(to, timeout=session.timeout)
    session.rows(
        ("partition", "deleted", "first_offset_left"),
        [(cut.partition, cut.count, cut.to) for cut in found if cut.count],
        nothing=f"nothing to delete in {topic}",
    )


def _say_what_stays(topic: str, found: list[Cut]) -> None:
    for cut in found:
        if cut.stays is not None:
            click.echo(f"{topic}[{cut.partition}] stays from offset {cut.to} on: {cut.stays}", err=True)
