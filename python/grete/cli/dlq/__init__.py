"""`grete dlq`."""

import click

from grete.cli.dlq.listing import list_letters
from grete.cli.dlq.purge import purge
from grete.cli.dlq.replay import replay
from grete.cli.dlq.show import show


@click.group()
def dlq() -> None:
    """Dead letters: list, show, replay, purge. Exit status 1: it could not be done."""


for _command in (list_letters, show, replay, purge):
    dlq.add_command(_command)
