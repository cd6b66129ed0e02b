"""Command group `grete transactions`."""

import click

from grete._cli.transactions.abort import abort
from grete._cli.transactions.describe import describe, hanging, list_transactions, producers


@click.group()
def transactions() -> None:
    """Transactions: list, describe, find hanging ones, abort (KIP-664). Exit status 1: the command failed."""


for _command in (list_transactions, describe, producers, hanging, abort):
    transactions.add_command(_command)
