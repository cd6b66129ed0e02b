"""`grete info`."""

import json
import sys

import click

from grete.cli import sharing
from grete.cli.description import describe, shown
from grete.cli.loading import load
from grete.cli.options import kafka_options, kafka_settings, with_fallback
from grete.cli.render import printable
from grete.cli.swarms import gather
from grete.config import layer
from grete.errors import GreteError


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--swarm", is_flag=True, help="Show how the nodes of the running swarms share memory instead.")
@click.option("--control", metavar="PATH", multiple=True, help="With --swarm: the control socket of the one meant.")
@click.option("--all", "all_", is_flag=True, help="Show Kafka's settings that have their default, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@kafka_options
def info(
    target: str | None,
    swarm: bool,
    control: tuple[str, ...],
    all_: bool,
    as_json: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Shows each setting with its value and where it comes from, the App's routes, and versions. Starts nothing.

    Without MODULE:APP: what grete.toml and the environment say. Values of secrets are not shown. With --swarm the
    argument is the name of an App whose swarm runs here, or nothing: all swarms of this user.
    """
    if swarm:
        _swarm(target, control, as_json)
        return
    if control:
        raise click.UsageError("--control goes with --swarm")
    app = load(target) if target is not None else None
    try:
        given = kafka_settings(bootstrap, pairs)
        if app is None:
            resolved = with_fallback(layer({}, given, "command line"))
        else:
            app.override({}, given)
            resolved = app.settings()
        description = describe(app, resolved)
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(description))
        return
    for line in shown(description, all_):
        click.echo(printable(line))


def _swarm(app: str | None, control: tuple[str, ...], as_json: bool) -> None:
    told, errors = gather(app, control)
    for number, status in enumerate(told):
        shared = sharing.of(status)
        if as_json:
            click.echo(json.dumps(shared))
            continue
        if number:
            click.echo()
        for line in sharing.shown(shared):
            click.echo(printable(line))
    for error in errors:
        click.echo(f"Error: {printable(str(error))}", err=True)
    if errors:
        sys.exit(1)
