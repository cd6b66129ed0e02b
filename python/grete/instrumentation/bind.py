"""Listening sockets of the probes."""

import errno
import logging
import os
import socket
from collections.abc import Sequence

from grete.errors import ConfigError

from .emit import log_and_emit
from .monitor import Monitor

_logger = logging.getLogger("grete")

_BACKLOG = 64


def format_address(name: tuple[str, int]) -> str:
    """Formats host and port, with brackets around an IPv6 address."""
    host, port = name[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def bind_all(host: str, port: int) -> list[socket.socket]:
    """Returns sockets that listen at all addresses of host and port; host "": loopback; "*": all interfaces; port 0: a
    free port.

    ConfigError names the address and the cure.
    """
    try:
        if host == "*" and socket.has_dualstack_ipv6():
            return [socket.create_server(("", port), family=socket.AF_INET6, backlog=_BACKLOG, dualstack_ipv6=True)]
        names = ["0.0.0.0"] if host == "*" else [host] if host else ["127.0.0.1", "::1"]  # noqa: S104
        found = [one for name in names for one in socket.getaddrinfo(name, port, type=socket.SOCK_STREAM)]
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


def report_addresses(monitor: Monitor | None, event: str, host: str, addresses: Sequence[str]) -> None:
    """Logs where the probes listen, and emits the event.

    It is a WARNING where the default address, loopback, is out of reach for those who ask: in a pod of Kubernetes.
    """
    level, text = logging.INFO, "probes at %s"
    if not host and "KUBERNETES_SERVICE_HOST" in os.environ:
        level = logging.WARNING
        text += "; the kubelet cannot reach loopback, so its probes will fail: set probes to *:PORT"
    fields = {"addresses": list(addresses)}
    log_and_emit(monitor, _logger, level, event, text, ", ".join(addresses), fields=fields)


def _is_unavailable(error: OSError) -> bool:
    return error.errno in (errno.EADDRINUSE, errno.EACCES)


def _bind_error(host: str, port: int, error: Exception) -> ConfigError:
    at = format_address((host or "127.0.0.1", port))
    why = os.strerror(error.errno) if isinstance(error, OSError) and error.errno and error.errno > 0 else str(error)
    cure = "name another with --probes [HOST:]PORT, or switch them off with --probes none"
    return ConfigError(f"the probes cannot listen at {at}: {why}; {cure}", setting="probes")
