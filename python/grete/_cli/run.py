"""Command `grete run app:app`."""

import importlib.util
import os
import sys
from collections.abc import Sequence
from typing import Any

import click

from grete._cli.app_loader import app_options, load_app
from grete._cli.options import kafka_settings, set_up_logging
from grete._cli.terminal import output
from grete._process.node import set_node_name
from grete.errors import GreteError


@click.command()
@app_options
@click.option("--probes", metavar="[HOST:]PORT", help='Where /livez, /readyz and /metrics answer, or "none".')
@click.option("--reload", is_flag=True, help="For development: stop and start again when a Python file changes.")
@click.option("--watch", multiple=True, metavar="DIR", help="With --reload: a directory to watch (.); repeatable.")
@click.pass_context
def run(
    context: click.Context,
    /,
    target: str,
    bootstrap: str | None,
    pairs: tuple[str, ...],
    reload: bool,
    watch: tuple[str, ...],
    **settings: Any,
) -> None:
    """Runs an App until SIGINT or SIGTERM: `grete run shop.app:app`.

    On a stop, jobs in flight end, offsets are committed, the groups are left. Exit status 0: stopped cleanly; 1: an
    error ended the App; 2: the stop was forced, by --shutdown-timeout or a second SIGINT, and the marks of finished
    handlers were committed all the same. SIGTSTP quiets: running jobs go on, and no more records are handed out.
    SIGTTIN dumps the stacks of all threads.
    """
    output.restore_stdout()
    if watch and not reload:
        raise click.UsageError("--watch is for --reload: add it, or leave --watch out")
    if reload:
        sys.exit(_run_and_reload(context, target, watch or (".",)))
    set_node_name("-")  # a log format with the node of a swarm must also work in a single process
    app = load_app(target)
    try:
        app.override(settings, kafka_settings(bootstrap, pairs))
        set_up_logging(app.settings()["log_level"])
        app.run()
    except GreteError as error:
        raise click.ClickException(str(error)) from None


def _run_and_reload(context: click.Context, target: str, watched: Sequence[str]) -> int:
    """Runs the App in a process of its own, which stops cleanly and starts again when a file changes."""
    if importlib.util.find_spec("watchfiles") is None:
        raise click.ClickException('--reload needs the package watchfiles: pip install "grete[dev]"')
    for directory in watched:
        if not os.path.isdir(directory):  # noqa: PTH112
            raise click.UsageError(f'--watch: there is no directory "{directory}"')
    from grete._dev.foreground import Foreground

    foreground = Foreground(None, "grete run")
    program = context.obj.get("program") if isinstance(context.obj, dict) else None
    foreground.add_app([*_given_options(context), target], watched, program)
    return foreground.run()


def _given_options(context: click.Context) -> list[str]:
    """Returns the options of the command line, apart from those of the reload."""
    words: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        given = context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE
        if not isinstance(option, click.Option) or not given or name in ("reload", "watch"):
            continue
        value = context.params[name]
        for one in value if option.multiple else (value,):
            words += [option.opts[0], str(one)]
    return words
