"""Command group `grete groups`, and `grete lag`."""

import click

from grete._cli.groups.delete import delete, delete_offsets, remove_member
from grete._cli.groups.describe import describe, list_groups
from grete._cli.groups.reset import reset


@click.group()
def groups() -> None:
    """Consumer groups: list, describe, reset, delete, remove-member... Exit status 1: the command failed."""


for _command in (list_groups, describe, reset, delete, remove_member, delete_offsets):
    groups.add_command(_command)
