"""What several commands share."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from grete import config
from grete.swarm.logs import Formatter

F = TypeVar("F", bound=Callable[..., Any])

LOG_FORMAT = "%(asctime)s %(levelname)-7s %(name)s: %(message)s"
SWARM_LOG_FORMAT = "%(asctime)s %(levelname)-7s %(grete_node)s %(name)s: %(message)s"


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


def resolved(command_line: config.Layer, defaults: Mapping[str, str] | None = None) -> dict[str, Any]:
    """The Kafka settings of grete.toml, the environment and the command line, over these defaults.

    Without any setting: the broker that most likely runs here.
    """
    kafka = with_fallback(command_line, defaults).kafka
    return {name: value.value for name, value in kafka.items()}


def with_fallback(command_line: config.Layer, defaults: Mapping[str, str] | None = None) -> config.Config:
    """All settings without an App's, with their origins; like `resolved`."""
    given = [config.file_layer(os.environ), config.environment_layer(os.environ), command_line]
    fallback = {"bootstrap.servers": "localhost:9092", **(defaults or {})}
    missing = {
        name: config.Value(value, "default")
        for name, value in fallback.items()
        if not any(layer.kafka.get(name) for layer in given)
    }
    return config.resolve(config.Layer(kafka=missing), command_line)


def set_up_logging(level: str, log_format: str = LOG_FORMAT) -> None:
    """Logs to stderr, unless the App has set up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(log_format))
    logging.basicConfig(level=level, handlers=[handler])
