"""Command `grete dev`, for the overview. The entry point calls `grete._dev` itself, without click, which is faster."""

import sys

import click

from grete._cli.terminal import output
from grete._dev import command


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def dev(words: tuple[str, ...]) -> None:
    """Runs brokers for development, and an App beside them: `grete dev shop:app`."""
    output.restore_stdout()
    sys.exit(command.main(words))
