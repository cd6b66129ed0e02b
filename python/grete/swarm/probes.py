"""Liveness, readiness and metrics over HTTP, of the supervisor and all nodes on one port."""

import logging
import socket
from collections.abc import Callable, Iterable

from grete.instrumentation.listening import listen, shown
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell
from grete.swarm import metrics, verdicts
from grete.swarm.boards import Boards
from grete.swarm.http1 import Answer, HttpDialogue, Request
from grete.swarm.server import Server
from grete.swarm.status import Status

logger = logging.getLogger("grete")

_PATHS = ("/", "/livez", "/readyz", "/metrics")
_METHODS = ("GET", "HEAD")
_EXPOSITION = "text/plain; version=0.0.4; charset=utf-8"


class ProbeServer(Server):
    """Answers HTTP from inside of the supervisor's loop."""

    def __init__(self, listeners: Iterable[socket.socket], status: Callable[[bool], Status], boards: Boards) -> None:
        listening = list(listeners)
        super().__init__(listening, lambda _: HttpDialogue(self._answer))
        self._status = status
        self._boards = boards
        self.addresses = tuple(shown(listener.getsockname()) for listener in listening)

    def _answer(self, request: Request) -> Answer:
        return answer(request, lambda: self._status(False), self._boards)


def answer(request: Request, status: Callable[[], Status], boards: Boards) -> Answer:
    """What a request gets: 200 or 503 with everything that is amiss, metrics, or a refusal."""
    if request.path not in _PATHS:
        return Answer(404, {"error": f"there is nothing here but {', '.join(_PATHS)}"})
    if request.method not in _METHODS:
        return Answer(405, {"error": f"{request.path} takes GET and HEAD"}, allow=", ".join(_METHODS))
    now = status()
    if request.path == "/metrics":
        return Answer(200, metrics.text(now, boards), text=_EXPOSITION)
    if request.path == "/":
        return Answer(200, {"live": verdicts.live(now), "ready": verdicts.ready(now), "status": now})
    verdict = verdicts.live(now) if request.path == "/livez" else verdicts.ready(now)
    return Answer(200 if verdict["ok"] else 503, verdict)


def open_server(
    address: tuple[str, int] | None,
    status: Callable[[bool], Status],
    boards: Boards,
    monitor: Monitor | None = None,
) -> ProbeServer | None:
    """Listens at all addresses of host and port; host "": all interfaces; port 0: a free one. None: nowhere.

    `status(memory)` tells what the swarm does, and nodes post their metrics to `boards`. ConfigError names the address
    and the cure.
    """
    if address is None:
        return None
    listeners = listen(*address)
    server = ProbeServer(listeners, status, boards)
    fields = {"addresses": list(server.addresses)}
    tell(monitor, logger, logging.INFO, "swarm.probes", "probes at %s", ", ".join(server.addresses), fields=fields)
    return server
