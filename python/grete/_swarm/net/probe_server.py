"""Liveness, readiness and metrics over HTTP, for the supervisor and all nodes on one port."""

import json
import logging
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from grete import _native
from grete._swarm.net.server import Server
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.status import health_checks, metrics
from grete._swarm.status.snapshot import Status
from grete.instrumentation.bind import bind_all, format_address, report_addresses
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

_PATHS = ("/", "/livez", "/readyz", "/metrics")
_METHODS = ("GET", "HEAD")
_JSON = "application/json"


@dataclass(frozen=True, slots=True)
class Response:
    """HTTP response. `content_type`: type of a body of bytes; any other body becomes JSON."""

    status: int
    body: Any
    content_type: str = _JSON


class ProbeProtocol:
    """Protocol of one connection: one request, one response. An exception of `handler` becomes a 500.

    `handler` takes method and path.
    """

    def __init__(self, handler: Callable[[str, str], Response]) -> None:
        self._handler = handler
        self._http = _native.HttpProtocol()

    def feed(self, data: bytes) -> bytes | None:
        """Implements `RequestProtocol`."""
        request = self._http.feed(data)
        if not isinstance(request, tuple):
            return request
        response = self._handle(*request)
        body = response.body if response.content_type != _JSON else _encode_json(response.body)
        return self._http.respond(response.status, response.content_type, body)

    def on_eof(self) -> bytes | None:
        """Implements `RequestProtocol`."""
        return self._http.on_eof()

    def on_timeout(self) -> bytes | None:
        """Implements `RequestProtocol`."""
        return self._http.on_timeout()

    def _handle(self, method: str, path: str) -> Response:
        try:
            return self._handler(method, path)
        except Exception as error:
            logger.exception("no answer to %s %s", method, path, extra={"event": "swarm.request.failed"})
            return Response(500, {"error": f"{type(error).__name__}: {error}"})


class ProbeServer(Server):
    """HTTP server in the supervisor's loop."""

    def __init__(
        self, listeners: Iterable[socket.socket], status: Callable[[bool], Status], boards: MetricsSegments
    ) -> None:
        listening = list(listeners)
        super().__init__(listening, lambda _: ProbeProtocol(self._handle_request))
        self._status = status
        self._metrics_segments = boards
        self.addresses = tuple(format_address(listener.getsockname()) for listener in listening)

    def _handle_request(self, method: str, path: str) -> Response:
        return handle_request(method, path, lambda: self._status(False), self._metrics_segments)


def handle_request(method: str, path: str, status: Callable[[], Status], metrics_segments: MetricsSegments) -> Response:
    """Returns the response: 200 or 503 with all problems, metrics, or a refusal."""
    if path not in _PATHS:
        return Response(404, {"error": f"there is nothing here but {', '.join(_PATHS)}"})
    if method not in _METHODS:
        return Response(405, {"error": f"{path} takes GET and HEAD"})
    now = status()
    if path == "/metrics":
        return Response(200, metrics.render(now, metrics_segments), _native.EXPOSITION_CONTENT_TYPE)
    if path == "/":
        return Response(
            200, {"live": health_checks.check_liveness(now), "ready": health_checks.check_readiness(now), "status": now}
        )
    result = health_checks.check_liveness(now) if path == "/livez" else health_checks.check_readiness(now)
    return Response(200 if result["ok"] else 503, result)


def _encode_json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def open_server(
    address: tuple[str, int] | None,
    status: Callable[[bool], Status],
    boards: MetricsSegments,
    monitor: Monitor | None = None,
) -> ProbeServer | None:
    """Listens at all addresses of host and port; host "": loopback; "*": all interfaces; port 0: a free one.

    None: no server.

    `status(memory)` returns the state of the swarm; nodes publish their metrics in `boards`. ConfigError names the
    address and the cure.
    """
    if address is None:
        return None
    listeners = bind_all(*address)
    server = ProbeServer(listeners, status, boards)
    report_addresses(monitor, "swarm.probes", address[0], server.addresses)
    return server
