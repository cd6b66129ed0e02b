"""The control socket: one line of JSON in, one out."""

import json
import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.swarm import sockets
from grete.swarm.server import Server
from grete.swarm.status import Status

logger = logging.getLogger("grete")

MAX_REQUEST = 4096
"""Bytes of a request, at most."""
_CREDENTIALS = struct.Struct("3i")

Answer = Mapping[str, object]


class ControlDialogue:
    """The protocol of one connection: see `Dialogue`."""

    def __init__(self, answer: Callable[[Mapping[str, object]], Answer]) -> None:
        self._answer = answer
        self._received = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """A line, or its beginning."""
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline and len(line) <= MAX_REQUEST:
            return self._reply(bytes(line))
        if len(self._received) > MAX_REQUEST:
            return encode({"error": f"a request has at most {MAX_REQUEST} bytes"})
        return None

    def ended(self) -> bytes | None:
        """The last line needs no newline."""
        return self._reply(bytes(self._received)) if self._received else None

    def late(self) -> bytes | None:
        """See `Dialogue`."""
        return encode({"error": 'no request came in time: send one line, like {"do": "status"}'})

    def _reply(self, line: bytes) -> bytes:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            return encode({"error": f'a request is one line of JSON, like {{"do": "status"}}: {error}'})
        if not isinstance(request, dict):
            return encode({"error": 'a request is a JSON object, like {"do": "status"}'})
        try:
            return encode(self._answer(request))
        except Exception as error:
            logger.exception("no answer to a control request", extra={"event": "swarm.answer.failed"})
            return encode({"error": f"{type(error).__name__}: {error}"})


def encode(answer: Answer) -> bytes:
    """The answer as a line."""
    return json.dumps(answer, ensure_ascii=True).encode() + b"\n"


class ControlServer(Server):
    """Answers at a Unix socket, from inside of the supervisor's loop."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        status: Callable[[bool], Status],
        commands: Mapping[str, Callable[[], object]],
        monitor: Monitor | None = None,
    ) -> None:
        super().__init__([listener], self._welcome)
        self.path = str(path)
        self._status = status
        self._monitor = monitor
        self._commands = commands
        self._owner = os.getpid()
        self._bound = os.lstat(path)

    def close(self) -> None:
        """Closes all, and removes the socket if this is the process that made it: a forked child leaves it there."""
        if os.getpid() == self._owner:
            sockets.remove(Path(self.path), self._bound)
        super().close()

    def _welcome(self, peer: socket.socket) -> ControlDialogue | None:
        pid, uid, _ = credentials(peer)
        if uid not in (os.geteuid(), 0):
            return None
        return ControlDialogue(lambda request: self._answer(request, pid))

    def _answer(self, request: Mapping[str, object], pid: int) -> Answer:
        verb = request.get("do")
        if verb == "status":
            return dict(self._status(request.get("memory") is True))
        if not isinstance(verb, str) or verb not in self._commands:
            known = ", ".join(["status", *self._commands])
            return {"error": f'"do" is one of {known}, not {str(verb)[:80]!r}'}
        tell(
            self._monitor,
            logger,
            logging.INFO,
            "swarm.command",
            "process %d asks through the control socket: %s",
            pid,
            verb,
            fields={"command": verb, "asked_by": pid},
        )
        self._commands[verb]()
        return {"done": verb}


def credentials(peer: socket.socket) -> tuple[int, int, int]:
    """Process, user and group of the other side; the process is 0 if it is in a PID namespace that we do not see."""
    pid, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid


def open_server(
    setting: str | None,
    app: str,
    status: Callable[[bool], Status],
    commands: Mapping[str, Callable[[], object]],
    monitor: Monitor | None = None,
) -> ControlServer | None:
    """Listens. `setting`: a path, "auto" for the default one, None for no socket at all: None then.

    `status(memory)` tells what the swarm does; `commands` are "stop", "quiet", "restart" and "dump". They are called
    from `ready`. ConfigError names the path and the cure.
    """
    if setting is None:
        return None
    private = setting == "auto"
    # Absolute, so that it is found again when the App changes the working directory.
    path = (
        sockets.default_path(app, os.environ, os.geteuid(), os.getpid())
        if private
        else Path(setting).expanduser().absolute()
    )
    server = ControlServer(sockets.listen(path, private=private), path, status, commands, monitor)
    tell(monitor, logger, logging.INFO, "swarm.control", "control socket at %s", path, fields={"path": str(path)})
    return server
