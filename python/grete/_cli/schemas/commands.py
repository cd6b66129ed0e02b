"""Commands `grete schemas check`, `register` and `diff`."""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from grete._cli.app_loader import load_app
from grete._cli.schemas import declared
from grete._cli.schemas.declared import Declaration
from grete._cli.schemas.text import difference
from grete._cli.terminal import output
from grete._cli.terminal.escapes import json_safe, printable
from grete._cli.terminal.table import Styled, Table
from grete.errors import GreteError, IncompatibleSchemaError, RegistryError, RetryLater, SchemaNotFoundError

_FIELDS = ("subject", "status", "id", "version", "topic", "part")


@click.group()
def schemas() -> None:
    """Schemas that an App declares: check, register, diff. Exit status 1: a schema is not as it should be."""


def _app_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the App, `--topic` and `--json`; errors become one line and exit status 1."""

    @functools.wraps(function)
    def command(target: str, topics: tuple[str, ...], as_json: bool, **options: Any) -> None:
        output.check_stdout()  # before any change
        app = load_app(target)
        try:
            unknown = set(topics) - {topic for topic, _, _ in declared.formats(app)}
            if unknown:
                raise click.UsageError(f"the App declares no schema for topic {min(unknown)}")
            found = declared.declarations(app, topics)
            if not found:
                click.echo("the App declares no schemas", err=True)
            function(found, as_json, **options)
        except RetryLater as error:
            raise click.ClickException(printable(error.reason)) from None
        except GreteError as error:
            raise click.ClickException(printable(str(error))) from None

    made: Callable[..., Any] = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(
        command
    )
    made = click.option("--topic", "topics", multiple=True, metavar="TOPIC", help="These topics alone; repeatable.")(
        made
    )
    return click.argument("target", metavar="MODULE:APP")(made)


@schemas.command()
@click.option("--registered", is_flag=True, help="Schemas that are not registered are an error, too.")
@_app_command
def check(found: Sequence[Declaration], as_json: bool, registered: bool) -> None:
    """Checks that the registry has each schema, or would accept it. Registers nothing.

    Status of a subject: registered, new (no such subject yet), compatible, incompatible, invalid, unchecked (it imports
    files that are not registered).
    """
    rows, failures = [], []
    for one in found:
        status, schema_id, version, reasons = _status(one)
        rows.append(_row(one, status, schema_id, version))
        failures += [f"{one.declared.subject}: {reason}" for reason in reasons]
        if registered and status in ("new", "compatible", "unchecked"):
            failures.append(f"{one.declared.subject}: is not registered; `grete schemas register` does so")
    _print(rows, as_json)
    _fail(failures)


@schemas.command()
@_app_command
def register(found: Sequence[Declaration], as_json: bool) -> None:
    """Registers the schemas that the registry does not have, unless it refuses one."""
    rows, failures = [], []
    for one in found:
        before = _lookup(one)
        if before is not None:
            rows.append(_row(one, "registered", before.id, before.version))
            continue
        try:
            made = declared.register(one)
        except RegistryError as error:
            rows.append(_row(one, "incompatible" if isinstance(error, IncompatibleSchemaError) else "invalid"))
            failures.append(f"{one.declared.subject}: {error}")
            continue
        rows.append(_row(one, "new", made.id, made.version))
    _print(rows, as_json)
    _fail(failures)


@schemas.command()
@_app_command
def diff(found: Sequence[Declaration], as_json: bool) -> None:
    """Shows what differs between the latest versions in the registry and the schemas of the App.

    Exit status 1: a schema differs.
    """
    differs = False
    for one in found:
        if _lookup(one) is not None:
            lines: list[str] = []
        else:
            try:
                latest = one.registry.latest(one.declared.subject, one.format.form)
            except SchemaNotFoundError:
                latest = None
            lines = difference(latest, one.declared.schema, one.declared.subject)
            differs = True
        if as_json:
            fact = {"subject": one.declared.subject, "topic": one.declared.topic, "part": one.declared.part}
            click.echo(json_safe(json.dumps({**fact, "diff": lines}, ensure_ascii=False, separators=(",", ":"))))
        else:
            output.show(*(Styled(line, _STYLES.get(line[:1], "")) for line in lines))
    if differs:
        sys.exit(1)


_STYLES = {"+": "green", "-": "red", "@": "cyan"}


def _status(one: Declaration) -> tuple[str, int | None, int | None, Sequence[str]]:
    """Returns status, id and version of a schema in the registry, and the reasons why it would be refused."""
    known = _lookup(one)
    if known is not None:
        return "registered", known.id, known.version, ()
    subject, normalize = one.declared.subject, one.declared.normalize
    try:
        one.registry.latest(subject)
    except SchemaNotFoundError:
        return "new", None, None, ()
    if one.missing:
        # The registry refuses to compare a schema whose references it does not have.
        return "unchecked", None, None, ()
    try:
        compatibility = one.registry.check(subject, one.declared.schema, normalize)
    except RegistryError as error:
        return "invalid", None, None, (str(error),)
    if compatibility.compatible:
        return "compatible", None, None, ()
    return "incompatible", None, None, compatibility.messages or ("it contradicts earlier versions",)


def _lookup(one: Declaration) -> Any:
    """Returns the registered schema; None: it is not registered."""
    if one.missing:
        return None
    try:
        return one.registry.lookup(one.declared.subject, one.declared.schema, one.declared.normalize)
    except SchemaNotFoundError:
        return None


def _row(one: Declaration, status: str, schema_id: int | None = None, version: int | None = None) -> tuple[object, ...]:
    declared_schema = one.declared
    return declared_schema.subject, status, schema_id, version, declared_schema.topic, declared_schema.part


def _print(rows: Iterable[tuple[object, ...]], as_json: bool) -> None:
    body = list(rows)
    if as_json:
        for row in body:
            fields = dict(zip(_FIELDS, row, strict=True))
            click.echo(json_safe(json.dumps(fields, ensure_ascii=False, separators=(",", ":"))))
    elif body:
        output.show(Table([field.upper() for field in _FIELDS], body))


def _fail(failures: Sequence[str]) -> None:
    """Ends the command with status 1 if there are failures, each on a line of standard error."""
    for failure in failures:
        output.note(f"Error: {failure}")
    if failures:
        sys.exit(1)
