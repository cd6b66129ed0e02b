"""What several commands share."""

import logging
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"


def kafka_options(function: F) -> F:
    """`--bootstrap` and `--kafka`."""
    function = click.option("--bootstrap", metavar="HOST:PORT,...", help="Brokers to start from.")(function)
    return click.option(
        "--kafka",
        "-k",
        "pairs",
        multiple=True,
        metavar="NAME=VALUE",
        help="A Kafka setting, like isolation.level=read_committed.",
    )(function)


def kafka_settings(bootstrap: str | None, pairs: Iterable[str]) -> dict[str, str]:
    """The two options as Kafka settings."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f'--kafka takes NAME=VALUE, not "{pair}"')
        settings[name.strip()] = value.strip()
    if bootstrap:
        settings["bootstrap.servers"] = bootstrap
    return settings


def set_up_logging(level: str) -> None:
    """Logs to stderr, unless the App has set up logging itself."""
    logging.basicConfig(level=level, format=LOG_FORMAT)
