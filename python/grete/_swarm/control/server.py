"""Server of the control socket: one line of JSON in, one line out."""

import json
import logging
import os
import socket
import struct
from collections.abc import Callable, Mapping
from pathlib import Path

from grete._swarm.control import socket_path
from grete._swarm.net.server import Server
from grete._swarm.status.snapshot import Status
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

MAX_REQUEST = 4096
"""Maximum bytes of a request."""
_CREDENTIALS = struct.Struct("3i")

Response = Mapping[str, object]


class ControlProtocol:
    """Protocol of one connection: see `RequestProtocol`."""

    def __init__(self, handle_request: Callable[[Mapping[str, object]], Response]) -> None:
        self._handle_request = handle_request
        self._received = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """Takes a line, or a part of it."""
        self._received += data
        line, newline, _ = self._received.partition(b"\n")
        if newline and len(line) <= MAX_REQUEST:
            return self._respond(bytes(line))
        if len(self._received) > MAX_REQUEST:
            return encode_response({"error": f"a request has at most {MAX_REQUEST} bytes"})
        return None

    def on_eof(self) -> bytes | None:
        """Accepts a last line without a newline."""
        return self._respond(bytes(self._received)) if self._received else None

    def on_timeout(self) -> bytes | None:
        """Implements `RequestProtocol`."""
        return encode_response({"error": 'no request came in time: send one line, like {"do": "status"}'})

    def _respond(self, line: bytes) -> bytes:
        try:
            request = json.loads(line)
        except (ValueError, RecursionError) as error:
            return encode_response({"error": f'a request is one line of JSON, like {{"do": "status"}}: {error}'})
        if not isinstance(request, dict):
            return encode_response({"error": 'a request is a JSON object, like {"do": "status"}'})
        try:
            return encode_response(self._handle_request(request))
        except Exception as error:
            logger.exception("no answer to a control request", extra={"event": "swarm.request.failed"})
            return encode_response({"error": f"{type(error).__name__}: {error}"})


def encode_response(response: Response) -> bytes:
    """Encodes the response as a line."""
    return json.dumps(response, ensure_ascii=True).encode() + b"\n"


class ControlServer(Server):
    """Server at a Unix socket, inside the supervisor's loop."""

    def __init__(
        self,
        listener: socket.socket,
        path: Path,
        status: Callable[[bool], Status],
        commands: Mapping[str, Callable[[], object]],
        monitor: Monitor | None = None,
    ) -> None:
        super().__init__([listener], self._authorize)
        self.path = str(path)
        self._status = status
        self._monitor = monitor
        self._commands = commands
        self._owner = os.getpid()
        self._bound = os.lstat(path)

    def close(self) -> None:
        """Closes all sockets. Removes the path only in the process that bound it, not in a forked child."""
        if os.getpid() == self._owner:
            socket_path.remove(Path(self.path), self._bound)
        super().close()

    def _authorize(self, peer: socket.socket) -> ControlProtocol | None:
        pid, uid, _ = credentials(peer)
        if uid not in (os.geteuid(), 0):
            return None
        return ControlProtocol(lambda request: self._handle_request(request, pid))

    def _handle_request(self, request: Mapping[str, object], pid: int) -> Response:
        verb = request.get("do")
        if verb == "status":
            return dict(self._status(request.get("memory") is True))
        if not isinstance(verb, str) or verb not in self._commands:
            known = ", ".join(["status", *self._commands])
            return {"error": f'"do" is one of {known}, not {str(verb)[:80]!r}'}
        log_and_emit(
            self._monitor,
            logger,
            logging.INFO,
            "swarm.command",
            "process %d sent a command through the control socket: %s",
            pid,
            verb,
            fields={"command": verb, "requested_by": pid},
        )
        self._commands[verb]()
        return {"done": verb}


def credentials(peer: socket.socket) -> tuple[int, int, int]:
    """Returns pid, uid and gid of the peer; the pid is 0 for a peer in an invisible PID namespace."""
    pid, uid, gid = _CREDENTIALS.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size))
    return pid, uid, gid


def open_server(
    setting: str | None,
    app: str,
    status: Callable[[bool], Status],
    commands: Mapping[str, Callable[[], object]],
    monitor: Monitor | None = None,
) -> ControlServer | None:
    """Opens the server. `setting`: a path, "auto" for the default path, None for no server: returns None then.

    `status(memory)` returns the state of the swarm; `commands` are "stop", "quiet", "restart" and "dump". Both are
    called from `handle_events`. ConfigError names the path and the cure.
    """
    if setting is None:
        return None
    private = setting == "auto"
    # Absolute, so that the path stays valid if the App changes the working directory.
    path = (
        socket_path.default_path(app, os.environ, os.geteuid(), os.getpid())
        if private
        else Path(setting).expanduser().absolute()
    )
    server = ControlServer(socket_path.listen(path, private=private), path, status, commands, monitor)
    log_and_emit(
        monitor, logger, logging.INFO, "swarm.control", "control socket at %s", path, fields={"path": str(path)}
    )
    return server
