"""Session of commands that use the admin client: options, connection, output, errors."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from grete import _units
from grete._cli.options import (
    default_address_hint,
    kafka_options,
    kafka_settings,
    resolve_kafka_settings,
    set_up_logging,
)
from grete._cli.param_ranges import ParsedType
from grete._cli.terminal import output
from grete._cli.terminal.error_words import command_error
from grete._cli.terminal.escapes import json_safe, printable
from grete._cli.terminal.table import Table
from grete._config import layers
from grete.client import Admin
from grete.errors import GreteError, TimeoutError  # noqa: A004


@dataclass(frozen=True, slots=True)
class AdminSession:
    """One run of an admin command."""

    admin: Admin
    timeout: float
    as_json: bool
    settings: Mapping[str, Any]
    """Kafka's settings, for clients beside the admin client."""

    def rows(self, fields: Sequence[str], rows: Iterable[Sequence[object]], *, if_empty: str) -> None:
        """Prints a table, or one JSON object a line; without rows `if_empty` goes to stderr."""
        body = list(rows)
        if self.as_json:
            for row in body:
                self.json(dict(zip(fields, row, strict=True)))
        elif body:
            output.show(Table([field.upper().replace("_", " ") for field in fields], body))
        else:
            output.note(if_empty)

    def json(self, value: Mapping[str, object]) -> None:
        """Prints one object on one line."""
        click.echo(json_safe(json.dumps(value, ensure_ascii=False, separators=(",", ":"))))

    def done(self, text: str, **facts: object) -> None:
        """Prints the result: a sentence, or its facts as JSON."""
        if self.as_json:
            self.json(facts)
        else:
            output.show(text)


def admin_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the connection and the common options to a command; errors become one line and exit status 1."""

    @functools.wraps(function)
    def command(
        *args: Any,
        bootstrap: str | None,
        pairs: tuple[str, ...],
        timeout: float,
        as_json: bool,
        **kwargs: Any,
    ) -> None:
        output.check_stdout()  # before any change
        set_up_logging("WARNING")
        command_line = layers.Layer()
        try:
            command_line = layers.parse_layer({}, kafka_settings(bootstrap, pairs), "command line")
            settings = resolve_kafka_settings(command_line)
            with Admin(settings) as admin:
                function(AdminSession(admin, timeout, as_json, settings), *args, **kwargs)
        except GreteError as error:
            hint = default_address_hint(command_line) if isinstance(error, TimeoutError) else ""
            lines = [command_error(str(error)), *getattr(error, "__notes__", ()), *filter(None, [hint])]
            raise click.ClickException("\n".join(map(printable, lines))) from None

    result: Callable[..., Any] = kafka_options(command)
    result = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(result)
    return click.option(
        "--timeout",
        type=ParsedType("duration", _units.seconds),
        default="60s",
        show_default=True,
        help="How long to try, like 30s.",
    )(result)


def confirm_options(function: Callable[..., None]) -> Callable[..., None]:
    """Adds `--yes` and `--dry-run`, which every command has that deletes, moves or repeats something."""
    function = click.option("--dry-run", is_flag=True, help="Only show what would be done.")(function)
    return click.option("--yes", "-y", is_flag=True, help="Do not ask.")(function)


def confirm(question: str, yes: bool, dry_run: bool = False) -> bool:
    """Asks for confirmation on the terminal, unless `yes`. Returns False for `dry_run`, after saying that nothing is
    changed; the command then ends without a change.

    Raises click.Abort if the answer is no; click.UsageError if there is no terminal to ask on.
    """
    if dry_run:
        output.note("nothing is changed: leave out --dry-run to do it")
        return False
    if yes:
        return True
    if not output.is_terminal(sys.stdin):
        raise click.UsageError(
            "standard input is not a terminal: add --yes to go on without confirmation, or --dry-run to look"
        )
    click.confirm(printable(question), abort=True, err=True)
    return True


def parse_settings(pairs: Iterable[str], option: str) -> dict[str, str]:
    """Parses repeated NAME=VALUE."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f'{option} takes NAME=VALUE, not "{layers.mask_pair(pair)}"')
        settings[name.strip()] = value.strip()
    return settings
