"""Command `grete transactions abort`."""

import click

from grete._cli.groups.partitions import parse_partitions
from grete._cli.param_ranges import OFFSET
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options
from grete._cli.transactions.describe import headline


@click.command()
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--topic", "-t", metavar="TOPIC:PARTITION", help="Partition of a hanging transaction.")
@click.option("--start", type=OFFSET, help="First offset of the hanging transaction.")
@confirm_options
@admin_command
def abort(
    session: AdminSession, ids: tuple[str, ...], topic: str | None, start: int | None, yes: bool, dry_run: bool
) -> None:
    """Aborts the open transactions of transactional ids, or a hanging one of a partition.

    The producer of an id is fenced: if it still runs, its next call fails, and it has to start again. A hanging
    transaction is one that `grete transactions hanging` finds: it is given by --topic and --start.
    """
    if bool(ids) == (topic is not None) or (topic is None) != (start is None):
        raise click.UsageError("give transactional ids, or --topic TOPIC:PARTITION with --start OFFSET")
    if topic is not None and start is not None:
        _abort_hanging(session, topic, start, yes=yes, dry_run=dry_run)
    else:
        _abort_ids(session, ids, yes=yes, dry_run=dry_run)


def _abort_ids(session: AdminSession, ids: tuple[str, ...], *, yes: bool, dry_run: bool) -> None:
    described = session.admin.describe_transactions(ids, timeout=session.timeout)
    wanted = [name for name, found in described.items() if found.is_open]
    for name, found in described.items():
        if not found.is_open:
            text = f"{name} has no open transaction ({found.state})"
            session.done(text, transactional_id=name, aborted=False)
        elif dry_run:
            session.done(f"would be aborted: {headline(found)}", transactional_id=name, aborted=False)
    if not wanted or not confirm(
        f"Abort the open transaction of {', '.join(wanted)}, and fence the producer?", yes, dry_run
    ):
        return
    session.admin.fence_producers(wanted, timeout=session.timeout)
    for name in wanted:
        text = f"the transaction of {name} is aborted, and its producer is fenced"
        session.done(text, transactional_id=name, aborted=True)


def _abort_hanging(session: AdminSession, given: str, start: int, *, yes: bool, dry_run: bool) -> None:
    found = parse_partitions(session, [given])
    if len(found) != 1:
        raise click.UsageError(f"--topic takes one partition here, like {given.partition(':')[0]}:0")
    ((topic, partition),) = found
    facts = {"topic": topic, "partition": partition, "start": start}
    if dry_run:
        text = f"the transaction of {topic}[{partition}] at offset {start} would be aborted"
        session.done(text, **facts, aborted=False)
    if not confirm(f"Abort the transaction of {topic}[{partition}] that begins at offset {start}?", yes, dry_run):
        return
    producer = session.admin.abort_transaction(topic, partition, start, timeout=session.timeout)
    text = f"the transaction of {topic}[{partition}] at offset {start} is aborted (producer {producer.producer_id})"
    session.done(text, **facts, aborted=True)
