"""Listening sockets of the probes."""

import errno
import os
import socket

from grete.errors import ConfigError

_BACKLOG = 64


def format_address(name: tuple[str, int]) -> str:
    """Formats host and port, with brackets around an IPv6 address."""
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_all(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that listen at all addresses of host and port; host "": all interfaces; port 0: a free port.

    ConfigError names the address and the cure.
    """
    try:
        if not host and socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)]
        found = socket.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)  # noqa: S104
    except (OSError, UnicodeError) as error:
        raise _bind_error(host, port, error) from None
    listeners: list[socket.socket] = []
    # "localhost" has two addresses; each once, in the order of the resolver.
    for family, where in dict.fromkeys((one[0], one[4]) for one in found):
        # With port 0, the port chosen for the first address is used for all.
        chosen = (where[0], listeners[0].getsockname()[1] if listeners else where[1], *where[2:])
        try:
            listeners.append(socket.create_server(chosen, family=family, backlog=_BACKLOG))
        except OSError as error:
            if listeners and not _is_unavailable(error):
                continue  # a host name may have an address that this machine lacks, like ::1 in many containers
            for listener in listeners:
                listener.close()
            raise _bind_error(host, port, error) from None
    return listeners


def _is_unavailable(error: OSError) -> bool:
    return error.errno in (errno.EADDRINUSE, errno.EACCES)


def _bind_error(host: str, port: int, error: Exception) -> ConfigError:
    at = format_address((host or "*", port))
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno and error.errno > 0 else str(error)
    cure = "name another with --probes [HOST:]PORT, or switch them off with --probes none"
    return ConfigError(f"the probes cannot listen at {at}: {why}; {cure}", setting="probes")
