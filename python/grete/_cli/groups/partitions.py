"""Option `--topic TOPIC[:PARTITION,...]` of commands that change offsets of a group."""

import re
from collections.abc import Iterable

import click

from grete._cli.param_ranges import partition_of
from grete._cli.session import AdminSession

Partition = tuple[str, int]


def parse_partitions(session: AdminSession, given: Iterable[str]) -> list[Partition]:
    """Returns the partitions of TOPIC[:PARTITION,...] arguments. Raises click.UsageError."""
    wanted: dict[Partition, None] = {}
    for text in given:
        topic, colon, numbers = text.partition(":")
        if not topic or (colon and not re.fullmatch(r"[0-9]+(,[0-9]+)*", numbers)):
            raise click.UsageError(f'--topic takes TOPIC or TOPIC:0,1,2, not "{text}"')
        if colon:
            try:
                found = [partition_of(number) or 0 for number in numbers.split(",")]
            except ValueError as error:
                raise click.UsageError(f"--topic {topic}: partition {error}") from None
            wanted.update(dict.fromkeys((topic, number) for number in found))
        else:
            described = session.admin.describe_topic(topic, timeout=session.timeout)
            wanted.update(((topic, partition.id), None) for partition in described.partitions)
    return list(wanted)
