"""A Schema Registry on a free port: what serialisers register can be read again."""

import base64
import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self


class FakeRegistry:
    """Keeps schemas in memory, and which requests came. With `trouble`, it answers with that status instead."""

    def __init__(self) -> None:
        self.schemas: list[dict[str, Any]] = []
        self.versions: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.trouble: int | None = None
        self.answer: bytes | None = None
        self._lock = threading.Lock()
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._do(b"")

            def do_POST(self) -> None:
                self._do(self.rfile.read(int(self.headers.get("Content-Length", 0))))

            def _do(self, body: bytes) -> None:
                status, answer = registry.handle(self.command, self.path, body, dict(self.headers.items()))
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", "/elsewhere")
                self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Not to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The schema's id; the same one for the same schema."""
        with self._lock:
            if schema not in self.schemas:
                self.schemas.append(schema)
            schema_id = self.schemas.index(schema) + 1
            versions = self.versions.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def handle(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of the answer."""
        with self._lock:
            self.requests.append((method, path))
            self.headers.append(headers)
        if self.trouble is not None:
            return self.trouble, b'{"error_code": 50001, "message": "trouble"}'
        if self.answer is not None:
            return 200, self.answer
        found = self._find(method, path.partition("?")[0], json.loads(body) if body else {})
        if found is None:
            return 404, b'{"error_code": 40403, "message": "not found"}'
        return 200, json.dumps(found).encode()

    def _find(self, method: str, path: str, body: dict[str, Any]) -> dict[str, Any] | None:
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(match[1])
            return self.schemas[number - 1] if 0 < number <= len(self.schemas) else None
        if match := re.fullmatch(r"/subjects/([^/]+)/versions(?:/(\d+))?", path):
            subject = match[1]
            if method == "POST":
                kept = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
                return {"id": self.register(subject, kept)}
            ids = self.versions.get(subject, [])
            version = int(match[2] or 0)
            if 0 < version <= len(ids):
                schema = self.schemas[ids[version - 1] - 1]
                return {"subject": subject, "version": version, "id": ids[version - 1], **schema}
        return None


def serialized(descriptor: Any) -> str:
    """A Protobuf file as a registry says it with `format=serialized`."""
    return base64.b64encode(descriptor.serialized_pb).decode()
