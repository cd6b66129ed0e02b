"""Ids of static members (KIP-345) that no setting names: host, App, a digest of the place, and the node's number.

Two processes with one `group.instance.id` fence each other. So the id must be unique wherever members of the group run,
and must stay the same when a node, or the supervisor, is started again. Host names alone are not unique: machines have
been copied, and containers share names. So a digest names the place beside the host: the boot of the kernel, and the
network namespace (of a container or pod). Within one place, the kernel knows which swarms exist: each supervisor binds
a socket in the abstract namespace, which belongs to a network namespace, and whose names vanish with their process.
"""

import errno
import hashlib
import re
import socket
from collections.abc import Sequence
from pathlib import Path

from grete.errors import ConfigError

_ILLEGAL = re.compile(r"[^A-Za-z0-9._-]")
# Characters of the App's name in the id. An id has at most 249; host names have at most 64, and the rest is short.
_MAX_APP_NAME = 120
_MAX_SWARMS = 64


class InstanceIds:
    """Prefix of the ids of one swarm's nodes, held until `close`, or until the process ends."""

    def __init__(self, prefix: str, number: int, name_lock: socket.socket) -> None:
        self.prefix = prefix
        self.number = number
        """Number of this swarm among those of the App in this place, from 1."""
        self._name_lock = name_lock

    def for_node(self, node: int) -> str:
        """Returns the node's `group.instance.id`."""
        return f"{self.prefix}-{node}"

    def fds(self) -> Sequence[int]:
        """Returns the descriptors that a forked node closes: only the supervisor holds the name."""
        return (self._name_lock.fileno(),)

    def close(self) -> None:
        """Releases the prefix for another swarm."""
        self._name_lock.close()


def id_prefix(app: str) -> str:
    """Returns the prefix for the App's first swarm in this place, like "web1-shop-5f3a9c1e"."""
    place = f"{_boot_id()}/{_network_namespace()}/{app}"
    digest = hashlib.blake2s(place.encode("utf-8", "surrogatepass"), digest_size=4).hexdigest()
    return f"{_sanitize(socket.gethostname())}-{_sanitize(app)[:_MAX_APP_NAME]}-{digest}"


def claim(app: str) -> InstanceIds:
    """Claims the first prefix that no other swarm here holds; the App's second swarm gets "web1-shop-5f3a9c1e.2".

    Raises ConfigError for too many swarms, OSError if the system has no abstract sockets.
    """
    first = id_prefix(app)
    for number in range(1, _MAX_SWARMS + 1):
        name = first if number == 1 else f"{first}.{number}"
        name_lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # Bound and never listening, so no process can connect. The name is a digest because of its limit of 107
            # bytes.
            name_lock.bind(b"\0grete-swarm-" + hashlib.blake2s(name.encode()).hexdigest().encode())
        except OSError as error:
            name_lock.close()
            if error.errno != errno.EADDRINUSE:
                raise
        else:
            return InstanceIds(name, number, name_lock)
    raise ConfigError(
        f'{_MAX_SWARMS} swarms of App "{app}" run on this host already, and no name is left for the static members of '
        'another; set "group.instance.id" of this one, or [swarm] static_membership = false',
        setting="static_membership",
    )


def _sanitize(name: str) -> str:
    return _ILLEGAL.sub("-", name)


def _boot_id() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _network_namespace() -> int:
    try:
        return Path("/proc/self/ns/net").stat().st_ino
    except OSError:
        return 0
