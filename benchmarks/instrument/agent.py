"""python -m benchmarks.instrument.agent: takes traces over HTTP, figures over UDP, and keeps nothing."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from subprocess import PIPE

from benchmarks.common.build import ROOT
from tests.kafka.processes import end, spawn


class Traces(BaseHTTPRequestHandler):
    """Says that all is well."""

    protocol_version = "HTTP/1.1"

    def do_PUT(self) -> None:
        """Datadog's way."""
        self.rfile.read(int(self.headers["Content-Length"]))
        body = b'{"rate_by_service":{}}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Drops the line: no log is read."""


@contextmanager
def agent() -> Iterator[tuple[int, int]]:
    """The ports of one in a process of its own: for HTTP, for UDP."""
    process = spawn([sys.executable, "-m", "benchmarks.instrument.agent"], cwd=ROOT, stdout=PIPE)
    try:
        assert process.stdout is not None
        ports = json.loads(process.stdout.readline())
        yield ports["http"], ports["udp"]
    finally:
        end(process)


def main() -> None:
    """Prints its ports, and takes what comes until it is ended."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Traces)
    figures = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    figures.bind(("127.0.0.1", 0))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(json.dumps({"http": server.server_port, "udp": figures.getsockname()[1]}), flush=True)
    while True:
        figures.recv(65536)


if __name__ == "__main__":
    main()
