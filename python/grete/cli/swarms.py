"""Finds the swarms that a command is about."""

import os
from collections.abc import Iterable
from pathlib import Path

import click

from grete._suggest import did_you_mean
from grete.cli.render import printable
from grete.swarm import asking, sockets
from grete.swarm.asking import ControlError
from grete.swarm.status import Status


def gather(app: str | None, control: Iterable[str]) -> tuple[list[Status], list[ControlError]]:
    """What the swarms say, and who did not answer. Without `control`: all of this user.

    Raises ClickException when there is none to be asked, saying where it looked.
    """
    named = [Path(path).expanduser().absolute() for path in control]
    uid = os.geteuid()
    paths = named or sockets.found(os.environ, uid)
    answers = asking.statuses(paths)
    told = [answer for answer in answers if not isinstance(answer, ControlError)]
    # A socket that a killed supervisor left in our directory is no trouble; one that was asked for is.
    errors = [answer for answer in answers if isinstance(answer, ControlError) and (named or not answer.gone)]
    if not told and not errors:
        looked = ", ".join(map(str, sockets.directories(os.environ, uid)))
        raise click.ClickException(
            f"no swarm of this user runs with its control socket in {looked}; if it has another, name it with --control"
        )
    if app is not None and told:
        apps = [status["app"] for status in told]
        told = [status for status in told if status["app"] == app]
        if not told:
            there = ", ".join(sorted(set(apps)))
            hint = did_you_mean(app, apps) or f"; there are: {printable(there)}"
            raise click.ClickException(f'no swarm of an App "{app}" answers{hint}')
    return told, errors
