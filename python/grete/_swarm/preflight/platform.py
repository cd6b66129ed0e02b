"""Refusal of systems that lack what supervisor and nodes are made of."""

import select
import socket
import sys

from grete.errors import NotSupportedError


def check_platform() -> None:
    """Raises NotSupportedError, which names what is missing, except on Linux."""
    needs = {
        "epoll": hasattr(select, "epoll"),
        "credentials of unix sockets (SO_PEERCRED)": hasattr(socket, "SO_PEERCRED"),
        "abstract unix sockets": sys.platform == "linux",
    }
    missing = [what for what, there in needs.items() if not there]
    if missing:
        raise NotSupportedError(
            f"a swarm needs Linux: {sys.platform} has no {', no '.join(missing)}; start several processes of "
            "`grete run` instead"
        )
