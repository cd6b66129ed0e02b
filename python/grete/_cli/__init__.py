"""Command line. Commands are imported when they are called, so that `grete --help` is quick."""

import importlib
from typing import Any

import click

from grete._cli.terminal import output
from grete._cli.terminal.escapes import printable_lines
from grete._native import __version__
from grete._suggest import did_you_mean

# name -> (location of the command, text in the overview)
COMMANDS = {
    "acls": ("grete._cli.acls.command:acls", "List, create and delete ACLs."),
    "consume": ("grete._cli.records.consume:consume", "Print a topic's messages as they come."),
    "asyncapi": ("grete._cli.asyncapi:asyncapi", "Print an AsyncAPI document of an App."),
    "demo": ("grete._cli.demo:demo", "Show a broker, an App and what happens to failures, in one terminal."),
    "dev": ("grete._cli.dev:dev", "Run brokers for development, and an App beside them."),
    "dlq": ("grete._cli.dlq:dlq", "List, show, replay and purge dead letters."),
    "doctor": ("grete._cli.doctor.command:doctor", "Find out where a connection to Kafka fails."),
    "explain": ("grete._explain.command:explain", "Explain an error or an event of the log: cause, cure, example."),
    "groups": ("grete._cli.groups:groups", "List, describe, reset and delete consumer groups."),
    "lag": ("grete._cli.groups.lag:lag", "Show the lag of consumer groups, a line each; --watch."),
    "info": ("grete._cli.info:info", "Show settings with their origins, routes, versions, shared memory."),
    "produce": ("grete._cli.records.produce:produce", "Write lines, files or JSON to a topic."),
    "ps": ("grete._cli.swarms.ps:ps", "Show the swarms that run, node by node."),
    "run": ("grete._cli.run:run", "Run an App until it is stopped."),
    "schemas": ("grete._cli.schemas:schemas", "Check, register and compare the schemas that an App declares."),
    "swarm": ("grete._cli.swarm:swarm", "Run an App in several processes, watched and replaced."),
    "top": ("grete._cli.top.command:top", "Show live in the terminal what Apps do: lanes, jobs, lag, retries."),
    "transactions": ("grete._cli.transactions:transactions", "List, describe and abort transactions."),
    "web": ("grete._cli.web:web", "Show in a browser what Apps do: lag, errors, dead letters, records."),
    "topics": ("grete._cli.topics:topics", "List, create, alter and delete topics; apply an App's."),
}


class LazyGroup(click.Group):
    """Group that imports a command's file when the command is called. All output of commands and of click goes through
    `output`.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the command in the arguments."""
        with output.checked_stdout():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        """Runs the command. Errors may hold texts of brokers, groups and records, which must not command the
        terminal.
        """
        try:
            return super().invoke(ctx)
        except click.ClickException as error:
            vars(error)["message"] = printable_lines(_named(error))  # final for type checkers only
            raise

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Returns the names of all commands."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Imports and returns a command; None if it does not exist."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def resolve_command(self, ctx: click.Context, args: list[str]) -> Any:
        """Finds the command in the arguments. The error for an unknown one names the most similar one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            error.message = error.message.removesuffix(".") + did_you_mean(args[0], COMMANDS)
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Writes the overview, without importing commands."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, COMMANDS[name][1]) for name in self.list_commands(ctx)])


def _named(error: click.ClickException) -> str:
    """Returns a message of one line with the class of the error behind it in brackets, for `grete explain`."""
    from grete.errors import GreteError, RetryLater

    cause = error.__cause__ or error.__context__
    if isinstance(cause, GreteError) and type(cause) not in (GreteError, RetryLater) and "\n" not in error.message:
        return f"{error.message} [{cause.help.rpartition(' ')[2]}]"
    return error.message


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, message="grete %(version)s")
def main() -> None:
    """Runs Python code on Kafka topics."""
