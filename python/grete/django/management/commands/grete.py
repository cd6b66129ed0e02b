"""`manage.py grete ...`: the command line of Grete in a project of Django."""

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from django.core.management.base import BaseCommand

from grete import _cli
from grete.django import close_all_before_fork, read_settings

# Commands, and commands of a group, that take MODULE:APP. `GRETE["app"]` is their default.
_APP_COMMANDS: tuple[tuple[str, ...], ...] = (
    ("run",),
    ("swarm",),
    ("info",),
    ("asyncapi",),
    ("topics", "plan"),
    ("topics", "apply"),
)


class Command(BaseCommand):  # type: ignore[misc]
    """Passes its words on to `grete`."""

    help = "Runs Grete's commands: `manage.py grete run`, `swarm`, `info`; see `manage.py grete --help`."

    def run_from_argv(self, argv: list[str]) -> None:
        """Runs the command line, whose options are Grete's. Those of Django itself are read before."""
        django = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        django.add_argument("--settings")
        django.add_argument("--pythonpath")
        _, words = django.parse_known_args(argv[2:])
        sys.exit(run(words, f"{argv[0]} {argv[1]}", argv[0]))

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        """Takes all words, for `call_command`."""
        parser.add_argument("words", nargs=argparse.REMAINDER)

    def handle(self, *args: Any, **options: Any) -> None:
        """Runs `call_command("grete", "run", ...)`. Raises SystemExit with the status of a command that failed."""
        status = run([*args, *options.get("words", ())], "grete")
        if status:
            sys.exit(status)


def run(words: Sequence[str], name: str, program: str | None = None) -> int:
    """Runs a command of Grete's, with defaults from Django's settings. Returns its exit status.

    `program`: manage.py, which `grete run --reload` runs again.
    """
    defaults: dict[str, Any] = {}
    if target := read_settings().get("app"):
        for path in _APP_COMMANDS:
            table = defaults
            for part in path:
                table = table.setdefault(part, {})
            table["target"] = target
    close_all_before_fork()
    try:
        _cli.main(
            list(words),
            prog_name=name,
            default_map=defaults,
            obj={"program": program, "kafka": read_settings().get("kafka")},
        )
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    return 0
