"""Client of the control socket: finds the swarms of this user, and sends them requests."""

import json
import os
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from grete._swarm.control import socket_path
from grete._swarm.control.server import credentials
from grete._swarm.status import memory
from grete._swarm.status.snapshot import VERSION, Status
from grete.errors import GreteError

RESPONSE_TIMEOUT = 5.0
"""Seconds that a supervisor has for its response."""
_MAX_RESPONSE = 64 << 20


class ControlError(GreteError):
    """A supervisor cannot be reached, or gave no valid response. `path`: its socket; `gone`: whether no process
    listens.
    """

    def __init__(self, message: str, *, path: Path, gone: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.gone = gone


@dataclass(frozen=True, slots=True)
class Response:
    """Response of a supervisor. `pid`: its process; 0 if the process is in another PID namespace."""

    path: Path
    pid: int
    content: dict[str, Any]


@dataclass(slots=True)
class _PendingRequest:
    path: Path
    socket: socket.socket
    pid: int
    received: bytearray = field(default_factory=bytearray)


def send_request(path: Path, request: Mapping[str, object], timeout: float = RESPONSE_TIMEOUT) -> dict[str, Any]:
    """Sends one request. Raises ControlError, also for a response that is an error."""
    (response,) = send_requests([path], request, timeout)
    if isinstance(response, ControlError):
        raise response
    return response.content


def send_requests(
    paths: Iterable[Path], request: Mapping[str, object], timeout: float = RESPONSE_TIMEOUT
) -> list[Response | ControlError]:
    """Sends the request to all sockets and returns the responses in their order, within one timeout (seconds).

    A supervisor that does not answer delays no other.
    """
    deadline = time.monotonic() + timeout
    line = json.dumps(request).encode() + b"\n"
    responses: list[Response | ControlError | _PendingRequest] = [_connect(path, line) for path in paths]
    with selectors.DefaultSelector() as selector:
        for number, exchange in enumerate(responses):
            if isinstance(exchange, _PendingRequest):
                selector.register(exchange.socket, selectors.EVENT_READ, number)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                waiting = responses[key.data]
                assert isinstance(waiting, _PendingRequest)
                response = _receive(waiting)
                if response is not None:
                    selector.unregister(waiting.socket)
                    waiting.socket.close()
                    responses[key.data] = response
    return [_timed_out(answer, timeout) if isinstance(answer, _PendingRequest) else answer for answer in responses]


def fetch_statuses(paths: Iterable[Path], timeout: float = RESPONSE_TIMEOUT) -> list[Status | ControlError]:
    """Returns the status of each supervisor, with the memory of its processes."""
    return [
        response if isinstance(response, ControlError) else _with_memory(response, timeout)
        for response in send_requests(paths, {"do": "status"}, timeout)
    ]


def _with_memory(response: Response, timeout: float) -> Status | ControlError:
    """Measures the memory in this process, to save the supervisor the time."""
    status = cast(Status, response.content)
    if status.get("v") != VERSION:
        return ControlError(
            f"the supervisor at {response.path} sends its status in version {status.get('v')}, and this Grete reads "
            f"version {VERSION}: use the grete command that it was started with",
            path=response.path,
        )
    if response.pid != status["pid"]:
        # Its pids mean nothing here: the supervisor is in another PID namespace, as in a container.
        (again,) = send_requests([response.path], {"do": "status", "memory": True}, timeout)
        return again if isinstance(again, ControlError) else cast(Status, again.content)
    status["memory"] = memory.read_memory(status["pid"])
    for node in status["nodes"]:
        node["memory"] = None if node["pid"] is None else memory.read_memory(node["pid"])
    return status


def _connect(path: Path, line: bytes) -> _PendingRequest | ControlError:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    try:
        if len(os.fsencode(path)) > socket_path.MAX_PATH_BYTES:
            raise OSError(f"a Unix socket's path has at most {socket_path.MAX_PATH_BYTES} bytes")
        peer.connect(os.fsencode(path))
        peer.send(line)
        return _PendingRequest(path, peer, credentials(peer)[0])
    except (FileNotFoundError, ConnectionRefusedError) as error:
        peer.close()
        why = "there is no such socket" if isinstance(error, FileNotFoundError) else "no process listens there any more"
        return ControlError(f"no swarm answers at {path}: {why}", path=path, gone=True)
    except BlockingIOError:
        peer.close()
        return ControlError(f"the supervisor at {path} takes no more connections: it does not answer", path=path)
    except PermissionError:
        peer.close()
        return ControlError(f"{path} is another user's: ask as that user, or as root", path=path)
    except (OSError, ValueError) as error:
        peer.close()
        return ControlError(f"{path} cannot be asked: {error}", path=path)


def _receive(exchange: _PendingRequest) -> Response | ControlError | None:
    """Returns the response, an error, or None: more bytes are needed."""
    path = exchange.path
    try:
        data = exchange.socket.recv(1 << 16)
    except BlockingIOError:
        return None
    except OSError as error:
        return ControlError(f"the supervisor at {path} ended the connection: {error.strerror}", path=path)
    exchange.received += data
    if data and not data.endswith(b"\n") and len(exchange.received) < _MAX_RESPONSE:
        return None
    try:
        response = json.loads(exchange.received)
    except (ValueError, RecursionError):
        why = "gave half an answer" if exchange.received else "closed the connection without an answer"
        return ControlError(f"the supervisor at {path} {why}", path=path)
    if not isinstance(response, dict):
        return ControlError(f"the process that answers at {path} is no supervisor of a swarm", path=path)
    if "error" in response:
        return ControlError(f"the supervisor at {path}: {response['error']}", path=path)
    return Response(path, exchange.pid, response)


def _timed_out(exchange: _PendingRequest, timeout: float) -> ControlError:
    exchange.socket.close()
    who = f"process {exchange.pid} at {exchange.path}" if exchange.pid else f"the one at {exchange.path}"
    return ControlError(f"the supervisor does not answer within {timeout:g} s: {who}", path=exchange.path)
