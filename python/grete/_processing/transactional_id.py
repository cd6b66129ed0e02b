"""`transactional.id` of a process: a prefix, and the smallest number that no other process on this host has."""

import fcntl
import hashlib
import os
import socket
import sys
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from grete._process import forks
from grete.errors import ConfigError

# More processes of one App on one host are not tried.
_MAX_PROCESSES = 10_000
_SETTING = "transactional.id"


class _Claim(Protocol):
    """Open descriptor that holds a name."""

    def close(self) -> None:
        """Gives the name back, unless another process has a copy of the descriptor."""


class TransactionalId:
    """Claim of a `transactional.id`, until `release` or the end of the process.

    Only one producer at a time may use an id, and brokers remember each id for days. So processes share a few ids: a
    number is claimed by an abstract unix socket of that name, or by a locked file where the system has no such sockets.
    The kernel drops both with the process. A process that starts again gets the smallest free number, and ends the
    transaction that was left open under it.
    """

    def __init__(self, prefix: str, first: int | None = None) -> None:
        """Claims `PREFIX-NUMBER`. `first`: number to try before all others, that of a node in its swarm.

        Raises ConfigError when all numbers are taken.
        """
        numbers = range(_MAX_PROCESSES) if first is None else (first, *range(_MAX_PROCESSES))
        for number in numbers:
            claim = _claim(f"{prefix}-{number}")
            if claim is not None:
                self.text = f"{prefix}-{number}"
                self._claim = claim
                forks.register(self)
                return
        raise ConfigError(
            f"{_SETTING}: {_MAX_PROCESSES} processes on this host have an id that begins with {prefix!r}; stop some of "
            "them, or set another prefix",
            setting=_SETTING,
        )

    def release(self) -> None:
        """Gives the id to the next process."""
        forks.unregister(self)
        self._claim.close()

    def leave_to_parent(self) -> None:
        """Closes a forked child's copy: with it, the id would be taken for as long as the child lives."""
        self._claim.close()


class FixedId:
    """`transactional.id` that only one process at a time has: that of a static member."""

    def __init__(self, text: str) -> None:
        self.text = text

    def release(self) -> None:
        """Does nothing."""


def _claim(name: str) -> _Claim | None:
    """Returns what claims the name; None: another process has the name."""
    return _bind_socket(name) if sys.platform == "linux" else _lock_file(name)


def _bind_socket(name: str) -> _Claim | None:
    found = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    with suppress(OSError):
        # An abstract address: no file, and no right to any directory, is needed. It has 107 bytes.
        found.bind(f"\0grete-id-{name}".encode()[:107])
        return found
    found.close()
    return None


def _lock_file(name: str) -> _Claim | None:
    """Locks a file in the directory for temporary files. The file stays there, empty.

    Users of a host share the names. A file that another user has made is opened, too: a lock needs no right to write.
    """
    path = Path(tempfile.gettempdir()) / f"grete-id-{hashlib.blake2s(name.encode(), digest_size=16).hexdigest()}"
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o644))
    with suppress(OSError):
        found = os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb")
        try:
            fcntl.flock(found, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BaseException:
            found.close()
            raise
        return found
    return None


def claim_transactional_id(
    group: str, explicit: str | None, instance: str | None, node: int | None
) -> TransactionalId | FixedId:
    """Returns the id for a group's client in this process.

    `explicit`: the App's `transactional.id`, a prefix; None: group and host. `instance`: `group.instance.id` of a
    static member. `node`: number in the swarm.
    """
    if instance is not None:
        return FixedId(f"{explicit or group}-{instance}")
    prefix = f"{explicit}-{group}" if explicit else f"{group}-{socket.gethostname()}"
    return TransactionalId(prefix, node)
