"""`grete topics`."""

from datetime import datetime
from typing import Literal

import click

from grete.cli.session import Session, admin_command, confirm, settings_given
from grete.client import TopicDescription
from grete.errors import GreteError

Place = Literal["earliest", "latest"] | datetime


class PlaceType(click.ParamType[Place]):
    """earliest, latest or an ISO 8601 time."""

    name = "place"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> Place:
        """What was given, understood."""
        if isinstance(value, datetime):
            return value
        text = str(value)
        if text in ("earliest", "latest"):
            return text  # type: ignore[return-value]
        try:
            return datetime.fromisoformat(text)
        except ValueError:
            self.fail(f'"{text}" is neither earliest, latest nor a time like 2026-01-31T12:00', param, ctx)


@click.group()
def topics() -> None:
    """Topics: list, describe, create, alter, delete, offsets. Exit status 1: it could not be done."""


@topics.command("list")
@click.option("--internal", is_flag=True, help="Kafka's own topics, too.")
@admin_command
def list_topics(session: Session, internal: bool) -> None:
    """Lists topics, with partitions and replication."""
    found = session.admin.all_topics(timeout=session.timeout)
    rows = [
        (topic.name, len(topic.partitions), max((len(p.replicas) for p in topic.partitions), default=0))
        for topic in found
        if internal or not topic.internal
    ]
    session.rows(("topic", "partitions", "replication_factor"), rows, nothing="there are no topics")


@topics.command()
@click.argument("names", metavar="TOPIC...", nargs=-1, required=True)
@admin_command
def describe(session: Session, names: tuple[str, ...]) -> None:
    """Shows partitions and settings of topics: who leads, who keeps, who is in sync; the settings that are its own."""
    found = session.admin.describe_topics(names, timeout=session.timeout)
    for number, topic in enumerate(found.values()):
        entries = session.admin.config(topic.name, timeout=session.timeout).values()
        own = {entry.name: entry.value for entry in entries if entry.source == "topic"}
        if session.as_json:
            session.json(_as_json(topic, own))
            continue
        if number:
            click.echo()
        click.echo(f"topic {topic.name}, id {topic.id or '-'}{', internal' if topic.internal else ''}")
        for name, value in sorted(own.items()):
            click.echo(f"  {name} = {value}")
        rows = [
            (partition.id, "none" if partition.leader is None else partition.leader, partition.replicas, partition.isr)
            for partition in topic.partitions
        ]
        session.rows(("partition", "leader", "replicas", "in_sync"), rows, nothing="no partitions")


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
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="How many.  [default: the broker's]")
@click.option(
    "--replication-factor", "-r", type=click.IntRange(min=1), help="How many copies.  [default: the broker's]"
)
@click.option("--config", "-c", "pairs_of_config", multiple=True, metavar="NAME=VALUE", help="A setting; repeatable.")
@click.option("--if-not-exists", is_flag=True, help="No error if it is there; it stays as it is.")
@admin_command
def create(
    session: Session,
    topic: str,
    partitions: int | None,
    replication_factor: int | None,
    pairs_of_config: tuple[str, ...],
    if_not_exists: bool,
) -> None:
    """Creates a topic. When the command ends it can be written to."""
    made = session.admin.create_topic(
        topic,
        partitions or -1,
        replication_factor or -1,
        settings_given(pairs_of_config, "--config"),
        if_not_exists,
        timeout=session.timeout,
    )
    session.done(f"topic {topic} {'is created' if made else 'was there already'}", topic=topic, created=made)


@topics.command()
@click.argument("topic")
@click.option("--partitions", "-p", type=click.IntRange(min=1), help="How many there shall be; they only ever grow.")
@click.option("--set", "-s", "to_set", multiple=True, metavar="NAME=VALUE", help="Change a setting; repeatable.")
@click.option("--delete", "-d", multiple=True, metavar="NAME", help="Take a setting back to its default; repeatable.")
@admin_command
def alter(
    session: Session, topic: str, partitions: int | None, to_set: tuple[str, ...], delete: tuple[str, ...]
) -> None:
    """Adds partitions or changes settings. Settings that are not named stay as they are."""
    settings = settings_given(to_set, "--set")
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
@click.option("--yes", "-y", is_flag=True, help="Do not ask.")
@admin_command
def delete(session: Session, names: tuple[str, ...], yes: bool) -> None:
    """Deletes topics and their records, for good."""
    found = session.admin.describe_topics(names, timeout=session.timeout)
    confirm(f"Delete {', '.join(found)} with all records?", yes)
    session.admin.delete_topics(found, timeout=session.timeout)
    for name in found:
        session.done(f"topic {name} is deleted", topic=name, deleted=True)


@topics.command()
@click.argument("topic")
@click.option("--at", "place", type=PlaceType(), metavar="earliest|latest|TIME", help="A place; a time is ISO 8601.")
@admin_command
def offsets(session: Session, topic: str, place: Place | None) -> None:
    """Shows where partitions start and end, or the offset at a place."""
    described = session.admin.describe_topic(topic, timeout=session.timeout)
    numbers = [partition.id for partition in described.partitions]

    def at(where: Place) -> dict[tuple[str, int], int]:
        return session.admin.offsets([(topic, number, where) for number in numbers], timeout=session.timeout)

    if place is not None:
        found = at(place)
        rows: list[tuple[int, ...]] = [(number, found[topic, number]) for number in numbers]
        session.rows(("partition", "offset"), rows, nothing="no partitions")
        return
    start, end = at("earliest"), at("latest")
    rows = [(n, start[topic, n], end[topic, n], end[topic, n] - start[topic, n]) for n in numbers]
    session.rows(("partition", "start", "end", "offsets"), rows, nothing="no partitions")
