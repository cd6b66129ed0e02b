"""Commands `grete transactions list`, `describe`, `producers` and `hanging`."""

from datetime import UTC, datetime

import click

from grete import _units
from grete._cli.groups.partitions import parse_partitions
from grete._cli.param_ranges import ParsedType
from grete._cli.session import AdminSession, admin_command
from grete._cli.terminal import output
from grete._cli.terminal.table import Styled
from grete.client import TransactionDescription
from grete.client.transaction_admin import HANGING_AFTER
from grete.errors import PartialResultError

_PRODUCER = ("producer_id", "producer_epoch", "last_sequence", "last_write", "coordinator_epoch", "start")


def moment(at: datetime | None) -> str | None:
    """Returns a time in ISO 8601, in UTC."""
    return None if at is None else at.isoformat(timespec="milliseconds")


@click.command("list")
@click.option("--state", "states", multiple=True, metavar="STATE", help="Only in it, like Ongoing; repeatable.")
@click.option("--producer-id", "producer_ids", multiple=True, type=click.IntRange(0), help="Only of it; repeatable.")
@admin_command
def list_transactions(session: AdminSession, states: tuple[str, ...], producer_ids: tuple[int, ...]) -> None:
    """Lists all transactional ids with their state. Exit status 1 when some brokers did not answer."""
    missing = None
    try:
        found = session.admin.transactions(states, producer_ids, timeout=session.timeout)
    except PartialResultError as error:
        missing, found = error, error.partial  # type: ignore[assignment]
    rows = [(one.transactional_id, one.state, one.producer_id, one.coordinator) for one in found]
    session.rows(("transactional_id", "state", "producer_id", "coordinator"), rows, if_empty="there are none")
    if missing is not None:
        raise missing


@click.command()
@click.argument("ids", metavar="ID...", nargs=-1, required=True)
@admin_command
def describe(session: AdminSession, ids: tuple[str, ...]) -> None:
    """Shows the state, the producer and the open transaction of transactional ids."""
    for number, found in enumerate(session.admin.describe_transactions(ids, timeout=session.timeout).values()):
        if session.as_json:
            session.json(_as_json(found))
            continue
        if number:
            click.echo()
        output.show(Styled(headline(found), "bold"))
        if found.is_open:
            session.rows(("topic", "partition"), found.partitions, if_empty="it has no partition yet")


def headline(found: TransactionDescription) -> str:
    """Describes a transactional id in one line."""
    age = ""
    if found.started is not None:
        seconds = (datetime.now(UTC) - found.started).total_seconds()
        age = f" for {max(0.0, seconds):.1f} s of at most {found.timeout:g} s"
    return (
        f"transactional id {found.transactional_id}: {found.state}{age}, producer {found.producer_id} epoch "
        f"{found.producer_epoch}, coordinator {found.coordinator}"
    )


def _as_json(found: TransactionDescription) -> dict[str, object]:
    return {
        "transactional_id": found.transactional_id,
        "state": found.state,
        "producer_id": found.producer_id,
        "producer_epoch": found.producer_epoch,
        "coordinator": found.coordinator,
        "timeout": found.timeout,
        "started": moment(found.started),
        "partitions": [{"topic": topic, "partition": partition} for topic, partition in found.partitions],
    }


@click.command()
@click.argument("given", metavar="TOPIC[:PARTITION,...]...", nargs=-1, required=True)
@admin_command
def producers(session: AdminSession, given: tuple[str, ...]) -> None:
    """Shows the idempotent and transactional producers that partitions know, and where their transactions begin."""
    found = session.admin.describe_producers(parse_partitions(session, given), timeout=session.timeout)
    rows = [
        (
            *at,
            one.producer_id,
            one.producer_epoch,
            one.last_sequence,
            moment(one.last_write),
            one.coordinator_epoch,
            one.transaction_start,
        )
        for at, of_partition in found.items()
        for one in of_partition
    ]
    session.rows(("topic", "partition", *_PRODUCER), rows, if_empty="there are none")


@click.command()
@click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="Only there; repeatable.  [default: all]")
@click.option(
    "--open-for",
    type=ParsedType("duration", _units.seconds),
    default=f"{HANGING_AFTER / 60:g}m",
    show_default=True,
    help="Only those without a write for so long: at least the brokers' transaction.max.timeout.ms.",
)
@admin_command
def hanging(session: AdminSession, topics: tuple[str, ...], open_for: float) -> None:
    """Finds transactions that no coordinator ends, and that hold back readers of committed records.

    `grete transactions abort` ends one of them.
    """
    found = session.admin.hanging_transactions(topics or None, open_for=open_for, timeout=session.timeout)
    fields = ("topic", "partition", "start", "producer_id", "producer_epoch", "last_write", "transactional_id")
    rows = [
        (
            one.topic,
            one.partition,
            one.producer.transaction_start,
            one.producer.producer_id,
            one.producer.producer_epoch,
            moment(one.producer.last_write),
            one.transactional_id,
        )
        for one in found
    ]
    session.rows(fields, rows, if_empty="no transaction hangs")
    if rows and not session.as_json:
        topic, partition, start = rows[0][:3]
        output.note(f"to abort the first one: grete transactions abort --topic {topic}:{partition} --start {start}")
