"""Command `grete doctor`."""

import json
import logging
import sys
from dataclasses import replace

import click

from grete import _units
from grete._cli.app_loader import load_app
from grete._cli.doctor.checks import Doctor
from grete._cli.doctor.finding import Finding
from grete._cli.options import kafka_options, kafka_settings, resolve_with_fallback
from grete._cli.param_ranges import ParsedType
from grete._cli.terminal import output
from grete._cli.terminal.error_words import command_error
from grete._cli.terminal.escapes import json_safe, printable
from grete._config import topic_patterns
from grete._config.layers import Config, parse_layer
from grete.app import App
from grete.errors import ConfigError

# Seconds: the least that the client takes for an attempt to connect.
_MIN_TIMEOUT = 0.1


def _some_seconds(text: str) -> float:
    seconds = _units.seconds(text)
    if seconds < _MIN_TIMEOUT:
        raise ValueError(f"no server answers within {text}: give {_MIN_TIMEOUT:g}s or more")
    return seconds


@click.command()
@click.argument("target", metavar="[MODULE:APP]", required=False)
@click.option("--topic", "topics", multiple=True, help="A topic that is read, besides those of the App.")
@click.option("--write", "written", multiple=True, metavar="TOPIC", help="A topic that is written; repeatable.")
@click.option("--group", "groups", multiple=True, help="A consumer group to look at, besides those of the App.")
@click.option(
    "--timeout",
    type=ParsedType("duration", _some_seconds),
    default="5s",
    show_default=True,
    help="How long each step may take at each address.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")
@kafka_options
def doctor(
    target: str | None,
    topics: tuple[str, ...],
    written: tuple[str, ...],
    groups: tuple[str, ...],
    timeout: float,
    as_json: bool,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Looks where a connection to Kafka fails: settings, DNS, TCP, TLS, ApiVersions, SASL, metadata, racks, the
    addresses that brokers advertise, topics, groups.

    Each step is "ok", or has one line with what to change. With MODULE:APP: with the settings, topics and groups of the
    App. Changes nothing. Exit status 1: a step failed.
    """
    output.check_stdout()
    app = _load(target) if target is not None else None
    logging.getLogger("grete").setLevel(logging.CRITICAL)  # the findings say the same
    findings = []
    try:
        config = _settings(app, kafka_settings(bootstrap, pairs))
        patient = Doctor({name: value.value for name, value in config.kafka.items()}, timeout)
        for finding in patient.check_settings():
            findings.append(finding)
            _show(finding, as_json)
        names = app.groups(config) if app is not None else {}
        read = [topic for routes in names.values() for route in routes for topic in route.topics]
        of_app = topic_patterns.names(read)
        of_routes = [
            topic
            for routes in names.values()
            for route in routes
            for topic in (route.publish, route.dead_letter)
            if topic is not None
        ]
        wanted = [list(dict.fromkeys(one)) for one in ([*of_app, *topics], [*names, *groups], [*of_routes, *written])]
        for finding in patient.examine(*wanted):
            findings.append(finding)
            _show(finding, as_json)
    except ConfigError as error:
        findings.append(Finding("settings", error.setting or "all", str(error)))
        _show(findings[-1], as_json)
    if not all(finding.ok for finding in findings):
        sys.exit(1)


def _load(target: str) -> App:
    try:
        return load_app(target)
    except SystemExit as error:
        module = target.partition(":")[0]
        raise click.ClickException(f'importing "{module}" failed: it calls sys.exit({error.code!r})') from None


def _settings(app: App | None, given: dict[str, str]) -> Config:
    if app is None:
        return resolve_with_fallback(parse_layer({}, given, "command line"))
    app.override({}, given)
    return app.settings()


def _show(finding: Finding, as_json: bool) -> None:
    if finding.problem is not None:
        finding = replace(finding, problem=printable(command_error(finding.problem)))
    if as_json:
        click.echo(json_safe(json.dumps(finding.fields(), ensure_ascii=False, separators=(",", ":"))))
    else:
        click.echo(printable(finding.line()))
