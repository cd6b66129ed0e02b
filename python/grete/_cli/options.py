"""Options that several commands share."""

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import click

from grete._config import layers
from grete._process.node import Formatter
from grete.instrumentation._logging.default_handler import LOG_FORMAT

F = TypeVar("F", bound=Callable[..., Any])

_DEFAULT_ADDRESS = "localhost:9092"
# A server that accepts the connection and does not speak Kafka is reported after this time; the wait for the next
# attempt doubles. A service can wait for longer than a person at a terminal.
_QUICK_REPORT = {"socket.connection.setup.timeout.ms": "1200"}


def kafka_options(function: F) -> F:
    """Adds `--bootstrap` and `--kafka`."""
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
    """Returns the two options as Kafka settings."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f'--kafka takes NAME=VALUE, not "{layers.mask_pair(pair)}"')
        settings[name.strip()] = value.strip()
    if bootstrap:
        settings["bootstrap.servers"] = bootstrap
    return settings


def resolve_kafka_settings(command_line: layers.Layer, defaults: Mapping[str, str] | None = None) -> dict[str, Any]:
    """Returns the Kafka settings of grete.toml, the environment and the command line, over these defaults.

    Without any setting the broker is localhost:9092, and a wrong port is reported within two seconds.
    """
    kafka = resolve_with_fallback(command_line, {**_QUICK_REPORT, **(defaults or {})}).kafka
    return {name: value.value for name, value in kafka.items()}


def resolve_with_fallback(command_line: layers.Layer, defaults: Mapping[str, str] | None = None) -> layers.Config:
    """Resolves all settings without an App's, with their origins; otherwise like `resolve_kafka_settings`."""
    code = _project_layer()
    given = [layers.file_layer(os.environ), layers.environment_layer(os.environ), code, command_line]
    fallback = {"bootstrap.servers": _DEFAULT_ADDRESS, **(defaults or {})}
    missing = {
        name: layers.SettingValue(value, "default")
        for name, value in fallback.items()
        if not any(layer.kafka.get(name) for layer in given)
    }
    return layers.resolve_config(layers.Layer(kafka={**missing, **code.kafka}), command_line)


def _project_layer() -> layers.Layer:
    """Returns Kafka's settings of the project that calls the command line, such as those of Django."""
    context = click.get_current_context(silent=True)
    project = context.find_root().obj if context is not None else None
    kafka = project.get("kafka") if isinstance(project, Mapping) else None
    return layers.parse_layer({}, kafka or {}, "settings of the project")


def default_address_hint(command_line: layers.Layer) -> str:
    """Returns what to add to an error of a command that has asked the default address; "": the address was given."""
    if resolve_with_fallback(command_line).kafka["bootstrap.servers"].origin != "default":
        return ""
    return (
        f"no address is set, so {_DEFAULT_ADDRESS} was asked: give --bootstrap, GRETE_KAFKA_BOOTSTRAP_SERVERS, or "
        "bootstrap.servers in [kafka] of grete.toml"
    )


def set_up_logging(level: str, log_format: str = LOG_FORMAT) -> None:
    """Configures logging to stderr, unless the App has set up logging itself."""
    handler = logging.StreamHandler()
    handler.setFormatter(Formatter(log_format))
    logging.basicConfig(level=level, handlers=[handler])
