"""Command group `grete web`."""

from grete._cli.web.command import web
from grete._cli.web.setup import password, setup

web.add_command(setup)
web.add_command(password)

__all__ = ["web"]
