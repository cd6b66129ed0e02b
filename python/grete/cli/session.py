"""What the commands on top of the admin client share: options, connection, output, errors."""

import functools
import json
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import click

from grete import config, units
from grete.cli.options import kafka_options, kafka_settings, resolved, set_up_logging
from grete.cli.table import table
from grete.client import Admin
from grete.errors import GreteError


@dataclass(frozen=True, slots=True)
class Session:
    """One run of a command."""

    admin: Admin
    timeout: float
    as_json: bool
    settings: Mapping[str, Any]
    """Kafka's, for clients beside the admin client."""

    def rows(self, fields: Sequence[str], rows: Iterable[Sequence[object]], *, nothing: str) -> None:
        """A table, or one JSON object a line; `nothing` goes to stderr when there is no row."""
        body = list(rows)
        if self.as_json:
            for row in body:
                self.json(dict(zip(fields, row, strict=True)))
        elif body:
            click.echo(table([field.upper().replace("_", " ") for field in fields], body))
        else:
            click.echo(nothing, err=True)

    def json(self, value: Mapping[str, object]) -> None:
        """One object on one line."""
        click.echo(json.dumps(value, ensure_ascii=False, separators=(",", ":")))

    def done(self, text: str, **facts: object) -> None:
        """What was done: a sentence, or its facts."""
        if self.as_json:
            self.json(facts)
        else:
            click.echo(text)


class Duration(click.ParamType[float]):
    """Like 30s."""

    name = "duration"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Seconds."""
        try:
            return units.seconds(value)  # type: ignore[arg-type]
        except ValueError as error:
            self.fail(str(error), param, ctx)


def admin_command(function: Callable[..., None]) -> Callable[..., None]:
    """Gives a command its connection and the options that all have; errors become one line and exit status 1."""

    @functools.wraps(function)
    def command(
        *args: Any,
        bootstrap: str | None,
        pairs: tuple[str, ...],
        timeout: float,
        as_json: bool,
        **kwargs: Any,
    ) -> None:
        set_up_logging("WARNING")
        try:
            command_line = config.layer({}, kafka_settings(bootstrap, pairs), "command line")
            settings = resolved(command_line)
            with Admin(settings) as admin:
                function(Session(admin, timeout, as_json, settings), *args, **kwargs)
        except GreteError as error:
            lines = [str(error), *getattr(error, "__notes__", ())]
            raise click.ClickException("\n".join(lines)) from None
        except BrokenPipeError:
            # The reader has gone; give the interpreter's last flush somewhere to go.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())

    result: Callable[..., Any] = kafka_options(command)
    result = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(result)
    return click.option(
        "--timeout", type=Duration(), default="60s", show_default=True, help="How long to try, like 30s."
    )(result)


def confirm(question: str, yes: bool) -> None:
    """Asks on the terminal, unless the answer was given beforehand."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise click.UsageError("nobody is there to be asked: say --yes to do it all the same")
    click.confirm(question, abort=True, err=True)


def settings_given(pairs: Iterable[str], option: str) -> dict[str, str]:
    """NAME=VALUE, several times."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name.strip():
            raise click.UsageError(f'{option} takes NAME=VALUE, not "{pair}"')
        settings[name.strip()] = value.strip()
    return settings
