"""Discovery of the swarms that a command is about."""

import os
from collections.abc import Iterable
from pathlib import Path

import click

from grete._cli.terminal.escapes import printable
from grete._config.suggest import did_you_mean
from grete._swarm.control import client, socket_path
from grete._swarm.control.client import ControlError
from grete._swarm.status.snapshot import Status


def find_swarms(app: str | None, control: Iterable[str]) -> tuple[list[Status], list[ControlError]]:
    """Returns the statuses of the swarms, and the errors of those that did not respond. Without `control`: all of this
    user.

    Raises ClickException when there is no swarm, with the directories searched.
    """
    named = [Path(path).expanduser().absolute() for path in control]
    uid = os.geteuid()
    paths = named or socket_path.discover(os.environ, uid)
    responses = client.fetch_statuses(paths)
    statuses = [answer for answer in responses if not isinstance(answer, ControlError)]
    # A socket that a killed supervisor left in our directory is no error; a missing socket from --control is.
    errors = [answer for answer in responses if isinstance(answer, ControlError) and (named or not answer.gone)]
    if not statuses and not errors:
        looked = ", ".join(map(str, socket_path.directories(os.environ, uid)))
        raise click.ClickException(
            f"no swarm of this user runs with its control socket in {looked}; if it has another, name it with --control"
        )
    if app is not None and statuses:
        apps = [status["app"] for status in statuses]
        statuses = [status for status in statuses if status["app"] == app]
        if not statuses:
            there = ", ".join(sorted(set(apps)))
            hint = did_you_mean(app, apps) or f"; there are: {printable(there)}"
            raise click.ClickException(f'no swarm of an App "{app}" answers{hint}')
    return statuses, errors
