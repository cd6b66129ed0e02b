"""Command `grete demo`, for the overview. The entry point calls `grete._demo` itself, which starts faster."""

import sys

import click

from grete._cli.terminal import output
from grete._demo import command


@click.command(
    add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED)
def demo(words: tuple[str, ...]) -> None:
    """Shows a broker, an App and what happens to failures, in one terminal."""
    output.restore_stdout()
    sys.exit(command.main(words))
