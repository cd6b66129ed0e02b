"""Commands `grete topics plan` and `grete topics apply`: brokers get the topics that an App declares."""

import functools
import sys
from collections.abc import Callable, Mapping
from typing import Any

import click

from grete import _topic_plan, _units
from grete._cli.app_loader import load_app
from grete._cli.options import kafka_options, kafka_settings, set_up_logging
from grete._cli.param_ranges import ParsedType
from grete._cli.session import AdminSession, confirm, confirm_options
from grete._cli.terminal import output
from grete._cli.terminal.error_words import command_error
from grete._plural import counted
from grete._topic_plan import Allowed, Change, DeclaredTopic
from grete.app import App
from grete.client import Admin
from grete.errors import GreteError

# Status of `plan` if there is something to do, as that of `terraform plan -detailed-exitcode`.
_CHANGES = 2

_SIGNS = {"create": "+", "recreate": "-+", "delete": "-", "refused": "!"}


def _plan_command(function: Callable[..., None]) -> Callable[..., None]:
    """Adds the App, the connection and the options of both commands. The function gets a session and the changes."""

    @functools.wraps(function)
    def command(
        target: str,
        bootstrap: str | None,
        pairs: tuple[str, ...],
        timeout: float,
        as_json: bool,
        allow_loss: tuple[str, ...],
        recreate: tuple[str, ...],
        delete: tuple[str, ...],
        **options: Any,
    ) -> None:
        output.check_stdout()  # before any change
        set_up_logging("WARNING")
        app = load_app(target)
        declared: Mapping[str, DeclaredTopic] = getattr(app, "topics", {})
        if not declared and not delete:
            raise click.ClickException(
                f'App "{app.name}" declares no topics: declare one with orders = app.topic("orders", partitions=8)'
            )
        try:
            app.override({}, kafka_settings(bootstrap, pairs))
            settings = dict(app.settings().kafka_pairs())
            with Admin(settings) as admin:
                session = AdminSession(admin, timeout, as_json, settings)
                changes = _topic_plan.make_plan(admin, declared, Allowed(allow_loss, recreate, delete), timeout)
                _note_undeclared(app, admin, timeout)
                function(session, changes, **options)
        except GreteError as error:
            lines = [command_error(str(error)), *getattr(error, "__notes__", ())]
            raise click.ClickException("\n".join(lines)) from None

    result: Callable[..., Any] = kafka_options(command)
    add = functools.partial(click.option, multiple=True, metavar="TOPIC")
    result = add("--delete", help="A topic to delete that the App does not declare; repeatable.")(result)
    result = add("--recreate", help="A topic to delete with its records and create anew; repeatable.")(result)
    result = add("--allow-loss", help="A topic whose settings may let brokers delete records; repeatable.")(result)
    result = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")(result)
    result = click.option(
        "--timeout",
        type=ParsedType("duration", _units.seconds),
        default="60s",
        show_default=True,
        help="How long to try, like 30s.",
    )(result)
    return click.argument("target", metavar="MODULE:APP")(result)


def _note_undeclared(app: App, admin: Admin, timeout: float) -> None:
    """Names topics that the App writes to, that it does not declare, and that do not exist."""
    # The App creates those of dead letters itself if it may.
    is_created = app.settings()["dead_letter_create"]
    dead = {route.dead_letter for route in app.routes if route.dead_letter is not None and not is_created}
    written = dead | {route.publish for route in app.routes if route.publish is not None}
    undeclared = written - app.topics.keys()
    for name in sorted(undeclared - set(admin.topics(internal=True, timeout=timeout)) if undeclared else ()):
        options = " --config retention.ms=-1" if name in dead else ""
        output.note(
            f'topic "{name}" does not exist, and the App writes to it without declaring it: declare it with '
            f"app.topic, or create it: grete topics create {name}{options}"
        )


@click.command()
@_plan_command
def plan(session: AdminSession, changes: list[Change]) -> None:
    """Shows what `apply` would change, and changes nothing: `grete topics plan shop.app:app`.

    Compares the topics that the App declares with `app.topic` with those of the brokers. Settings and topics that are
    not declared stay as they are. Exit status 0: nothing to do; 1: an error; 2: there are changes, or refused ones.
    """
    _show_plan(session, changes)


@click.command()
@confirm_options
@_plan_command
def apply(session: AdminSession, changes: list[Change], yes: bool, dry_run: bool) -> None:
    """Creates the topics that an App declares, adds partitions, and alters settings.

    Changes that lose records are refused, unless an option names the topic. Exit status 0: the topics are as declared;
    1: an error, or a change was refused. With --dry-run the command shows what `plan` shows, with its exit status.
    """
    if dry_run:
        _show_plan(session, changes)
        return
    wanted = [change for change in changes if change.kind != "refused"]
    if not session.as_json or not wanted:
        _show(session, changes)
    if wanted:
        confirm(f"Apply {counted(len(wanted), 'change')}?", yes)
        done = 0
        try:
            for change in _topic_plan.apply_plan(session.admin, wanted, session.timeout):
                done += 1
                if session.as_json:
                    session.json(_as_json(change) | {"done": True})
        except GreteError as error:
            error.add_note(
                f"{done} of {counted(len(wanted), 'change')} were made before that; apply again for the rest"
            )
            raise
        if not session.as_json:
            click.echo(f"{counted(done, 'change')} made", err=True)
    refused = len(changes) - len(wanted)
    if refused:
        raise GreteError(f"{counted(refused, 'change')} refused; see above")


def _show_plan(session: AdminSession, changes: list[Change]) -> None:
    """Shows the changes, and ends with the status of `plan`."""
    _show(session, changes)
    if changes:
        sys.exit(_CHANGES)


def _show(session: AdminSession, changes: list[Change]) -> None:
    for change in changes:
        if session.as_json:
            session.json(_as_json(change))
        else:
            word = "refused: " if change.kind == "refused" else ""
            output.show(f"{_SIGNS.get(change.kind, '~')} {change.topic}: {word}{change.text}")
    refused = sum(change.kind == "refused" for change in changes)
    if not changes:
        click.echo("nothing to do: the topics are as declared", err=True)
    else:
        text = f", {refused} refused" if refused else ""
        click.echo(f"{counted(len(changes) - refused, 'change')}{text}", err=True)


def _as_json(change: Change) -> dict[str, object]:
    return {"topic": change.topic, "change": change.kind, "text": change.text}
