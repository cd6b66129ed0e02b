"""Command group `grete dlq`."""

import click

from grete._cli.dlq.list import list_dead_letters
from grete._cli.dlq.purge import purge
from grete._cli.dlq.replay import replay
from grete._cli.dlq.show import show


@click.group()
def dlq() -> None:
    """Dead letters: list, show, replay, purge. Exit status 1: the command failed."""


for _command in (list_dead_letters, show, replay, purge):
    dlq.add_command(_command)
