"""Options of `grete run` and `grete swarm`, and loading of the App."""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from grete._cli.options import kafka_options
from grete._config.parsers import MAX_COUNT, MAX_WORKERS
from grete.app import App
from grete.errors import ConfigError

F = TypeVar("F", bound=Callable[..., Any])


def app_options(function: F) -> F:
    """Adds the App argument, and the options for settings that are often changed for a run."""
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
        "--max-messages", type=click.IntRange(1, MAX_COUNT), help="Messages that one call of consume gets at most."
    )(function)
    function = click.option("--group", help="Consumer group of routes that name none.")(function)
    workers = click.IntRange(1, MAX_WORKERS)
    function = click.option("--workers", type=workers, help="Threads that run handlers.")(function)
    return click.argument("target", metavar="MODULE:APP")(function)


def load_app(target: str) -> App:
    """Loads the App at `module:attribute`; the attribute defaults to `app`."""
    module_name, _, attribute = target.partition(":")
    attribute = attribute or "app"
    if module_name.endswith(".py") or "/" in module_name:
        suggestion = module_name.removesuffix(".py").strip("./").replace("/", ".")
        raise click.UsageError(f'name the module, not the file: "{suggestion}:{attribute}"')
    # Like `python -m`, this makes the modules in the working directory importable.
    here = _working_directory()
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and (module_name == error.name or module_name.startswith(f"{error.name}.")):
            raise click.UsageError(f'there is no module "{error.name}" in {here} or on the Python path') from None
        raise _import_failed(module_name, error) from None
    except ConfigError as error:
        # The message begins with the file and line of the declaration, so a traceback would add nothing.
        raise (click.ClickException(str(error)) if error.location else _import_failed(module_name, error)) from None
    except Exception as error:
        raise _import_failed(module_name, error) from None
    for name in attribute.split("."):
        if not hasattr(found, name):
            apps = [key for key, value in vars(found).items() if isinstance(value, App)]
            hint = f"; it has: {', '.join(f'{module_name}:{key}' for key in apps)}" if apps else ""
            raise click.UsageError(f'"{module_name}" has no "{attribute}"{hint}')
        found = getattr(found, name)
    if not isinstance(found, App):
        raise click.UsageError(f"{module_name}:{attribute} is a {type(found).__name__}, not a grete.App")
    return found


def _working_directory() -> str:
    try:
        return str(Path.cwd())
    except OSError as error:
        raise click.ClickException(
            f"the working directory cannot be found ({error.strerror}): it was deleted, or must not be read; "
            "change to another one"
        ) from None


def _import_failed(module: str, error: Exception) -> click.ClickException:
    """Makes the error of a module that exists and raises, with the module's own frames of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if "importlib" not in frame.filename and frame.filename != __file__]
    text = "".join(traceback.format_list(own)) + "".join(traceback.format_exception_only(error))
    return click.ClickException(f'importing "{module}" failed:\n{text}')
