"""What `grete run` and `grete swarm` share: their options, and how they find the App."""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from grete.app import App
from grete.cli.options import kafka_options
from grete.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def app_options(function: F) -> F:
    """The App, and the settings that one would change for a run."""
    function = kafka_options(function)
    function = click.option(
        "--log-level",
        type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
        help="How much is logged, to stderr.",
    )(function)
    function = click.option(
        "--shutdown-timeout", metavar="DURATION", help='How long a stop may take before it is forced, like "30s".'
    )(function)
    function = click.option(
        "--max-messages", type=click.IntRange(min=1), help="Messages that one call of consume gets at most."
    )(function)
    function = click.option("--group", help="Consumer group of routes that name none.")(function)
    function = click.option("--workers", type=click.IntRange(min=1), help="Threads that run handlers.")(function)
    return click.argument("target", metavar="MODULE:APP")(function)


def load(target: str) -> App:
    """The App that `module:attribute` names; the attribute is `app` if not given."""
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "app"
    if module_name.endswith(".py") or "/" in module_name:
        suggestion = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(f'name the module, not the file: "{suggestion}:{attribute}"')
    # As `python -m` does: what lies in the working directory can be imported.
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise click.UsageError(f'there is no module "{error.name}" in {here} or on the Python path') from None
        raise _broken(module_name, error) from None
    except ConfigError as error:
        # It begins with the file and line of the declaration: no traceback could say more.
        raise (click.ClickException(str(error)) if error.location else _broken(module_name, error)) from None
    except Exception as error:
        raise _broken(module_name, error) from None
    for name in attribute.split("."):
        if not hasattr(found, name):
            apps = [key for key, value in vars(found).items() if isinstance(value, App)]
            hint = f"; it has: {', '.join(f'{module_name}:{key}' for key in apps)}" if apps else ""
            raise click.UsageError(f'"{module_name}" has no "{attribute}"{hint}')
        found = getattr(found, name)
    if not isinstance(found, App):
        raise click.UsageError(f"{module_name}:{attribute} is a {type(found).__name__}, not a grete.App")
    return found


def _broken(module: str, error: Exception) -> click.ClickException:
    """The module is there and raises: its own frames of the traceback say where."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    text = "".join(traceback.format_list(own)) + "".join(traceback.format_exception_only(error))
    return click.ClickException(f'importing "{module}" failed:\n{text}')
