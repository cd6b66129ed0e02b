"""The other end of the control socket: finds the swarms of this user, and asks them."""

import json
import os
import selectors
import socket
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from grete.errors import GreteError
from grete.swarm import memory, sockets
from grete.swarm.control import credentials
from grete.swarm.status import VERSION, Status

TIMEOUT = 5.0
"""Seconds that a supervisor has for its answer."""
_MOST = 64 << 20


class ControlError(GreteError):
    """A supervisor could not be asked, or gave no answer. `path` is its socket, `gone` whether nobody listens there."""

    def __init__(self, message: str, *, path: Path, gone: bool = False) -> None:
        super().__init__(message)
        self.path = path
        self.gone = gone


@dataclass(frozen=True, slots=True)
class Answer:
    """What a supervisor said. `pid` is its process as we see it, 0 if we do not: it is in another PID namespace."""

    path: Path
    pid: int
    content: dict[str, Any]


@dataclass(slots=True)
class _Exchange:
    path: Path
    socket: socket.socket
    pid: int
    received: bytearray = field(default_factory=bytearray)


def ask(path: Path, request: Mapping[str, object], timeout: float = TIMEOUT) -> dict[str, Any]:
    """One answer. Raises ControlError, also when the answer is a refusal."""
    (answer,) = ask_all([path], request, timeout)
    if isinstance(answer, ControlError):
        raise answer
    return answer.content


def ask_all(
    paths: Iterable[Path], request: Mapping[str, object], timeout: float = TIMEOUT
) -> list[Answer | ControlError]:
    """All answers, in the order of the paths, within one timeout (seconds): who does not answer holds up nobody."""
    deadline = time.monotonic() + timeout
    line = json.dumps(request).encode() + b"\n"
    answers: list[Answer | ControlError | _Exchange] = [_begin(path, line) for path in paths]
    with selectors.DefaultSelector() as selector:
        for number, exchange in enumerate(answers):
            if isinstance(exchange, _Exchange):
                selector.register(exchange.socket, selectors.EVENT_READ, number)
        while selector.get_map() and (left := deadline - time.monotonic()) > 0:
            for key, _ in selector.select(left):
                waiting = answers[key.data]
                assert isinstance(waiting, _Exchange)
                answer = _receive(waiting)
                if answer is not None:
                    selector.unregister(waiting.socket)
                    waiting.socket.close()
                    answers[key.data] = answer
    return [_late(answer, timeout) if isinstance(answer, _Exchange) else answer for answer in answers]


def statuses(paths: Iterable[Path], timeout: float = TIMEOUT) -> list[Status | ControlError]:
    """What the supervisors at these sockets say, with the memory of their processes."""
    return [
        answer if isinstance(answer, ControlError) else _with_memory(answer, timeout)
        for answer in ask_all(paths, {"do": "status"}, timeout)
    ]


def _with_memory(answer: Answer, timeout: float) -> Status | ControlError:
    """Measures from here, so that the supervisor need not: it has nodes to look after."""
    status = cast(Status, answer.content)
    if status.get("v") != VERSION:
        return ControlError(
            f"the supervisor at {answer.path} speaks of its status as version {status.get('v')}, and this Grete as "
            f"{VERSION}: use the grete command that it was started with",
            path=answer.path,
        )
    if answer.pid != status["pid"]:
        # Its process numbers mean nothing here: it is in another PID namespace, as in a container.
        (again,) = ask_all([answer.path], {"do": "status", "memory": True}, timeout)
        return again if isinstance(again, ControlError) else cast(Status, again.content)
    status["memory"] = memory.of(status["pid"])
    for node in status["nodes"]:
        node["memory"] = None if node["pid"] is None else memory.of(node["pid"])
    return status


def _begin(path: Path, line: bytes) -> _Exchange | ControlError:
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    peer.setblocking(False)
    try:
        if len(os.fsencode(path)) > sockets.LONGEST:
            raise OSError(f"a Unix socket's path has at most {sockets.LONGEST} bytes")
        peer.connect(os.fsencode(path))
        peer.send(line)
        return _Exchange(path, peer, credentials(peer)[0])
    except (FileNotFoundError, ConnectionRefusedError) as error:
        peer.close()
        why = "there is no such socket" if isinstance(error, FileNotFoundError) else "nobody listens there any more"
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


def _receive(exchange: _Exchange) -> Answer | ControlError | None:
    """The answer, an error, or None: more has to come."""
    path = exchange.path
    try:
        data = exchange.socket.recv(1 << 16)
    except BlockingIOError:
        return None
    except OSError as error:
        return ControlError(f"the supervisor at {path} ended the connection: {error.strerror}", path=path)
    exchange.received += data
    if data and not data.endswith(b"\n") and len(exchange.received) < _MOST:
        return None
    try:
        answer = json.loads(exchange.received)
    except (ValueError, RecursionError):
        why = "gave half an answer" if exchange.received else "closed the connection without an answer"
        return ControlError(f"the supervisor at {path} {why}", path=path)
    if not isinstance(answer, dict):
        return ControlError(f"what answers at {path} is no supervisor of a swarm", path=path)
    if "error" in answer:
        return ControlError(f"the supervisor at {path}: {answer['error']}", path=path)
    return Answer(path, exchange.pid, answer)


def _late(exchange: _Exchange, timeout: float) -> ControlError:
    exchange.socket.close()
    who = f"process {exchange.pid} at {exchange.path}" if exchange.pid else f"the one at {exchange.path}"
    return ControlError(f"the supervisor does not answer within {timeout:g} s: {who}", path=exchange.path)
