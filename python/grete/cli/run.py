"""`grete run app:app`."""

import importlib
import sys
import traceback
from pathlib import Path

import click

from grete.app import App
from grete.cli.options import kafka_options, kafka_settings, set_up_logging
from grete.errors import ConfigError, GreteError


@click.command()
@click.argument("target", metavar="MODULE:APP")
@click.option("--workers", type=click.IntRange(min=1), help="Threads that run handlers.")
@click.option("--group", help="Consumer group of routes that name none.")
@click.option("--max-messages", type=click.IntRange(min=1), help="Messages that one call of consume gets at most.")
@click.option(
    "--shutdown-timeout", metavar="DURATION", help='How long a stop may take before it is forced, like "30s".'
)
@click.option(
    "--log-level",
    type=click.Choice(["debug", "info", "warning", "error"], case_sensitive=False),
    help="How much is logged, to stderr.",
)
@kafka_options
def run(
    target: str,
    workers: int | None,
    group: str | None,
    max_messages: int | None,
    shutdown_timeout: str | None,
    log_level: str | None,
    bootstrap: str | None,
    pairs: tuple[str, ...],
) -> None:
    """Runs an App until SIGINT or SIGTERM: `grete run shop.app:app`.

    Then jobs in flight end, offsets are committed, the groups are left. Exit status 0: stopped cleanly; 1: an error
    ended it; 2: the stop was forced, by --shutdown-timeout or a second SIGINT, and what other handlers had done was
    committed all the same. SIGTSTP quiets: what runs goes on, and no more records are handed out. SIGTTIN dumps the
    stacks of all threads.
    """
    app = load(target)
    settings = {
        "workers": workers,
        "group": group,
        "max_messages": max_messages,
        "shutdown_timeout": shutdown_timeout,
        "log_level": log_level,
    }
    try:
        app.override(settings, kafka_settings(bootstrap, pairs))
        set_up_logging(app.settings()["log_level"])
        app.run()
    except GreteError as error:
        raise click.ClickException(str(error)) from None


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
