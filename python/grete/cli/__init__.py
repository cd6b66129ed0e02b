"""The command line. Commands are imported when they are called, so that `grete --help` is quick."""

import importlib

import click

from grete._core import __version__

# name -> (where the command lives, what the overview says)
COMMANDS = {
    "consume": ("grete.cli.consume:consume", "Print a topic's messages as they come."),
    "dlq": ("grete.cli.dlq:dlq", "List, show, replay and purge dead letters."),
    "groups": ("grete.cli.groups:groups", "List, describe, reset and delete consumer groups."),
    "info": ("grete.cli.info:info", "Show settings with their origins, routes, versions, shared memory."),
    "produce": ("grete.cli.produce:produce", "Write lines, files or JSON to a topic."),
    "ps": ("grete.cli.ps:ps", "Show the swarms that run, node by node."),
    "run": ("grete.cli.run:run", "Run an App until it is stopped."),
    "swarm": ("grete.cli.swarm:swarm", "Run an App in several processes, watched and replaced."),
    "topics": ("grete.cli.topics:topics", "List, describe, create, alter and delete topics."),
}


class LazyGroup(click.Group):
    """Imports a command's file when the command is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """All names."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports the one asked for."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The overview, without importing anything."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="grete %(version)s")
def main() -> None:
    """Runs Python code on Kafka topics."""
