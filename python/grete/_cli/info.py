"""Command `grete info`."""

import json
import sys

import click

from grete._cli.app_loader import load_app
from grete._cli.options import kafka_options, kafka_settings, resolve_with_fallback
from grete._cli.reports import memory_report
from grete._cli.reports.info_report import build_report, render
from grete._cli.swarms.discovery import find_swarms
from grete._cli.terminal import output
from grete._cli.terminal.escapes import printable
from grete._config.layers import parse_layer
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
    """Shows each setting with its value and origin, the App's routes, and versions. Starts nothing.

    Without MODULE:APP: the settings of grete.toml and the environment. Secrets are masked. With --swarm the argument is
    the name of an App whose swarm runs here; without it: all swarms of this user.
    """
    if swarm:
        _print_memory(target, control, as_json)
        return
    if control:
        raise click.UsageError("--control goes with --swarm")
    app = load_app(target) if target is not None else None
    try:
        given = kafka_settings(bootstrap, pairs)
        if app is None:
            resolved = resolve_with_fallback(parse_layer({}, given, "command line"))
        else:
            app.override({}, given)
            resolved = app.settings()
        description = build_report(app, resolved)
    except GreteError as error:
        raise click.ClickException(str(error)) from None
    if as_json:
        click.echo(json.dumps(description))
        return
    output.show(*render(description, all_))


def _print_memory(app: str | None, control: tuple[str, ...], as_json: bool) -> None:
    statuses, errors = find_swarms(app, control)
    for number, status in enumerate(statuses):
        report = memory_report.from_status(status)
        if as_json:
            click.echo(json.dumps(report))
            continue
        if number:
            click.echo()
        output.show(*memory_report.render(report))
    for error in errors:
        click.echo(f"Error: {printable(str(error))}", err=True)
    if errors:
        sys.exit(1)
