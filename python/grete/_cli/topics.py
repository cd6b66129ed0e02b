"""Command group `grete topics`."""

import click

from grete._cli.param_ranges import PARTITIONS, POSITION, POSITION_HELP, POSITION_METAVAR, REPLICAS, Position
from grete._cli.positions import locate
from grete._cli.session import AdminSession, admin_command, confirm, confirm_options, parse_settings
from grete._cli.terminal import output
from grete._cli.terminal.table import Styled
from grete._cli.topic_plan import apply, plan
from grete.client import TopicDescription
from grete.errors import GreteError


@click.group()
def topics() -> None:
    """Topics: list, describe, create, alter, delete, offsets; plan and apply those that an App declares.

    Exit status 1: the command failed.
    """


topics.add_command(plan)
topics.add_command(apply)


@topics.command("list")
@click.option("--internal", is_flag=True, help="Kafka's own topics, too.")
@admin_command
def list_topics(session: AdminSession, internal: bool) -> None:
    """Lists topics, with partitions and replication."""
    found = session.admin.all_topics(timeout=session.timeout)
    rows = [
        (topic.name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions), default=0))
        for topic in found
        if internal or not topic.internal
    ]
    session.rows(("topic", "partitions", "replication_factor"), rows, if_empty="there are no topics")


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@admin_command
def describe(session: AdminSession, names: tuple[str, ...]) -> None:
    """Shows partitions of topics with leader, replicas and in-sync replicas, and the settings that differ from the
    defaults.
    """
    found = session.admin.describe_topics(names, timeout=session.timeout)
    for number, topic in enumerate(found.values()):
        entries = session.admin.config(topic.name, timeout=session.timeout).values()
        own = {entry.name: entry.value for entry in entries if entry.source == "topic"}
        if session.as_json:
            session.json(_as_json(topic, own))
            continue
        if number:
            click.echo()
        headline = f"topic {topic.name}, id {topic.id or '-'}{', internal' if topic.internal else ''}"
        output.show(Styled(headline, "bold"))
        for name, value in sorted(own.items()):
            output.show(f"  {name} = {value}")
        rows = [
            (partition.id, "none" if partition.leader is None else partition.leader, partition.replicas, partition.isr)
            for partition in topic.partitions
        ]
        session.rows(("partition", "leader", "replicas", "in_sync"), rows, if_empty="no partitions")


def _as_json(topic: TopicDescription, config: dict[str, str | None]) -> dict[str, object]:
    partitions = [
        {
            "partition": partition.id,
            "leader": partition.leader,
            "leader_epoch": partition.leader_epoch,
            "replicas": partition.replicas,
            "in_sync": partition.isr,
        }
        for partition in topic.partitions
    ]
    return {
        "topic": topic.name,
        "id": topic.id,
        "internal": topic.internal,
        "config": config,
        "partitions": partitions,
    }


@topics.command()
@click.argument("topic")
@click.option("--partitions", "-p", type=PARTITIONS, help="How many.  [default: the broker's]")
@click.option("--replication-factor", "-r", type=REPLICAS, help="How many copies.  [default: the broker's]")
@click.option("--config", "-c", "pairs_of_config", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="No error if it is there; it stays as it is.")
@admin_command
def create(
    session: AdminSession,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    pairs_of_config: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Creates a topic. When the command ends, the topic accepts records."""
    made = session.admin.create_topic(
        topic,
        partitions or -1,
        replication_factor or -1,
        parse_settings(pairs_of_config, "--config"),
        if_not_exists,
        timeout=session.timeout,
    )
    session.done(f"topic {topic} {'is created' if made else 'was there already'}", topic=topic, created=made)


@topics.command()
@click.argument("topic")
@click.option("--partitions", "-p", type=PARTITIONS, help="How many there shall be; they only ever grow.")
@click.option("--set", "-s", "to_set", multiple=True, metavar="NAME=VALUE", help="Change a setting; repeatable.")
@click.option("--delete", "-d", multiple=True, metavar="NAME", help="Take a setting back to its default; repeatable.")
@admin_command
def alter(
    session: AdminSession, topic: str, partitions: int | None, to_set: tuple[str, ...], delete: tuple[str, ...]
) -> None:
    """Adds partitions or changes settings. Other settings are unchanged."""
    settings = parse_settings(to_set, "--set")
    if not (partitions or settings or delete):
        raise click.UsageError("nothing to alter: say --partitions, --set or --delete")
    if settings or delete:
        session.admin.alter_config(topic, settings, delete, timeout=session.timeout)
    if partitions:
        try:
            session.admin.create_partitions(topic, partitions, timeout=session.timeout)
        except GreteError as error:
            if settings or delete:
                error.add_note("the settings were changed before that")
            raise
    session.done(f"topic {topic} is altered", topic=topic, altered=True)


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@confirm_options
@admin_command
def delete(session: AdminSession, names: tuple[str, ...], yes: bool, dry_run: bool) -> None:
    """Deletes topics and their records, for good."""
    found = session.admin.describe_topics(names, timeout=session.timeout)
    if dry_run:
        for name in found:
            session.done(f"topic {name} would be deleted with all records", topic=name, deleted=False)
    if not confirm(f"Delete {', '.join(found)} with all records?", yes, dry_run):
        return
    session.admin.delete_topics(found, timeout=session.timeout)
    for name in found:
        session.done(f"topic {name} is deleted", topic=name, deleted=True)


@topics.command()
@click.argument("topic")
@click.option("--at", "position", type=POSITION, metavar=POSITION_METAVAR, help=f"A position: {POSITION_HELP}.")
@admin_command
def offsets(session: AdminSession, topic: str, position: Position | None) -> None:
    """Shows where partitions start and end, or the offset at a position."""
    described = session.admin.describe_topic(topic, timeout=session.timeout)
    partitions = [(topic, partition.id) for partition in described.partitions]
    if position is not None:
        found = locate(session, partitions, position)
        rows: list[tuple[int, ...]] = [(at[1], found[at]) for at in partitions]
        session.rows(("partition", "offset"), rows, if_empty="no partitions")
        return
    start, end = locate(session, partitions, "earliest"), locate(session, partitions, "latest")
    rows = [(at[1], start[at], end[at], end[at] - start[at]) for at in partitions]
    session.rows(("partition", "start", "end", "offsets"), rows, if_empty="no partitions")
