"""A Schema Registry on a free port, with the answers and error codes that Confluent documents for its own."""

import base64
import hashlib
import json
import re
import ssl
import threading
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

import fastavro
from google.protobuf.descriptor_pb2 import FileDescriptorProto

JSON_TYPE = "application/vnd.schemaregistry.v1+json"


class RefusedError(Exception):
    """An answer without success."""

    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.answer = status, json.dumps({"error_code": code, "message": message}).encode()


class FakeRegistry:
    """Keeps schemas in memory, and which requests came. With `trouble`, it answers with that status instead.

    Attributes:
        full_response: a registration is answered with version and GUID, as since Confluent Platform 8.0; else with
            the id alone.
        authorization: the header that requests must have.
        tokens: how many access tokens the token endpoint, /token, has issued: "token-1", "token-2", ...
        hold: requests wait for this event.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        """`tls`: speaks https with it."""
        self.schemas: list[dict[str, Any]] = []
        self.versions: dict[str, list[int]] = {}
        self.requests: list[tuple[str, str]] = []
        self.headers: list[dict[str, str]] = []
        self.trouble: int | None = None
        self.answer: bytes | None = None
        self.full_response = True
        self.authorization: str | None = None
        self.tokens = 0
        self.token_answer: dict[str, Any] = {"expires_in": 3600}
        self.hold = threading.Event()
        self.hold.set()
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
                self.send_header("Content-Type", JSON_TYPE)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, format: str, *args: object) -> None:  # noqa: A002
                """Not to stderr."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            # A handshake that fails ends a handler's thread, and not the server.
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True, do_handshake_on_connect=False)
            self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self.url = f"http{'' if tls is None else 's'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.hold.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(self, subject: str, schema: dict[str, Any]) -> int:
        """The schema's id; the same one for the same schema."""
        with self._lock:
            known = [_identity(one) for one in self.schemas]
            if _identity(schema) not in known:
                self.schemas.append(schema)
                known.append(_identity(schema))
            schema_id = known.index(_identity(schema)) + 1
            versions = self.versions.setdefault(subject, [])
            if schema_id not in versions:
                versions.append(schema_id)
            return schema_id

    def asked(self, method: str) -> list[str]:
        """The paths of the requests that came with a method."""
        return [path for one, path in self.requests if one == method]

    def handle(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        """Status and body of the answer."""
        with self._lock:
            self.requests.append((method, path))
            self.headers.append(headers)
        self.hold.wait(60)
        if path == "/token":
            self.tokens += 1
            return 200, json.dumps({"access_token": f"token-{self.tokens}", **self.token_answer}).encode()
        if self.authorization is not None and headers.get("Authorization") != self.authorization:
            return 401, b'{"error_code": 401, "message": "Unauthorized"}'
        if self.trouble is not None:
            return self.trouble, b'{"error_code": 50001, "message": "trouble"}'
        if self.answer is not None:
            return 200, self.answer
        where, _, query = path.partition("?")
        try:
            found = self._find(method, where, dict(urllib.parse.parse_qsl(query)), json.loads(body) if body else {})
        except RefusedError as refused:
            return refused.answer
        return 200, json.dumps(found).encode()

    def _find(self, method: str, path: str, query: dict[str, str], body: dict[str, Any]) -> Any:
        form = query.get("format", "")
        if match := re.fullmatch(r"/schemas/ids/(\d+)", path):
            number = int(match[1])
            if not 0 < number <= len(self.schemas):
                raise RefusedError(404, 40403, f"Schema {number} not found")
            return self._said(number, form)
        if match := re.fullmatch(r"/schemas/guids/([0-9a-f-]+)", path):
            ids = [number for number in range(1, len(self.schemas) + 1) if self.guid(number) == match[1]]
            if not ids:
                raise RefusedError(404, 40403, f"Schema {match[1]} not found")
            return self._said(ids[0], form)
        if match := re.fullmatch(r"/compatibility/subjects/([^/]+)/versions(?:/latest)?", path):
            messages = self._incompatibilities(urllib.parse.unquote(match[1]), self._checked(body))
            verbose = query.get("verbose", "").lower() == "true"
            return {"is_compatible": not messages, **({"messages": messages} if verbose else {})}
        if match := re.fullmatch(r"/subjects/([^/]+)(/versions(?:/(\w+))?)?", path):
            subject = urllib.parse.unquote(match[1])
            if method == "POST" and match[2]:
                return self._registered(subject, self._checked(body))
            if method == "POST":
                return self._looked_up(subject, self._checked(body))
            return self._version(subject, match[3] or "", form)
        raise RefusedError(404, 404, "HTTP 404 Not Found")

    def _registered(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        messages = self._incompatibilities(subject, schema)
        if messages:
            raise RefusedError(
                409, 40901, f"Schema being registered is incompatible with an earlier schema for subject: {messages}"
            )
        number = self.register(subject, schema)
        if not self.full_response:
            return {"id": number}
        # The schema comes back as it was sent, and not in the registry's own form.
        return {**schema, "guid": self.guid(number), "id": number, "version": self.versions[subject].index(number) + 1}

    def _looked_up(self, subject: str, schema: dict[str, Any]) -> dict[str, Any]:
        if subject not in self.versions:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        for version, number in enumerate(self.versions[subject], 1):
            if _identity(self.schemas[number - 1]) == _identity(schema):
                return {"subject": subject, "version": version, "id": number, **self._said(number)}
        raise RefusedError(404, 40403, "Schema not found")

    def _version(self, subject: str, version: str, form: str) -> Any:
        if subject not in self.versions:
            raise RefusedError(404, 40401, f"Subject '{subject}' not found.")
        ids = self.versions[subject]
        if not version:
            return list(range(1, len(ids) + 1))
        if version != "latest" and not version.isdecimal():
            raise RefusedError(422, 42202, f"The specified version '{version}' is not a valid version id.")
        number = len(ids) if version == "latest" else int(version)
        if not 0 < number <= len(ids):
            raise RefusedError(404, 40402, f"Version {version} not found.")
        return {"subject": subject, "version": number, "id": ids[number - 1], **self._said(ids[number - 1], form)}

    def guid(self, number: int) -> str:
        """The schema's GUID, a hash of its text and references."""
        schema = self.schemas[number - 1]
        text = schema["schema"] + json.dumps(schema.get("references") or [])
        return str(uuid.UUID(bytes=hashlib.md5(text.encode()).digest()))

    def _said(self, number: int, form: str = "") -> dict[str, Any]:
        """A schema as it is answered: AVRO is not said, and neither are references that there are not."""
        schema = {**self.schemas[number - 1], "guid": self.guid(number)}
        if schema.get("schemaType") == "PROTOBUF" and form != "serialized" and "message" not in schema["schema"]:
            # The registry keeps the source of the file, and says the descriptor to those who ask for it.
            schema["schema"] = f'syntax = "proto3"; // {schema["schema"][:8]}'
        return schema

    def _checked(self, body: dict[str, Any]) -> dict[str, Any]:
        """The schema in a request. Raises RefusedError for an invalid one, and for references that lead nowhere."""
        schema = _checked(body)
        for one in schema.get("references") or ():
            if one["version"] > len(self.versions.get(one["subject"], ())):
                raise RefusedError(
                    422, 42201, f'Invalid schema, details: No schema reference found for subject "{one["subject"]}"'
                )
        return schema

    def _incompatibilities(self, subject: str, schema: dict[str, Any]) -> list[str]:
        """Why the schema cannot read what the latest version has written: the level BACKWARD, the default."""
        ids = self.versions.get(subject)
        if not ids:
            return []
        old = self.schemas[ids[-1] - 1]
        if old.get("schemaType", "AVRO") != schema.get("schemaType", "AVRO"):
            return ["Incompatible because of different schema type"]
        if schema.get("schemaType", "AVRO") == "PROTOBUF":
            return []
        before, after = json.loads(old["schema"]), json.loads(schema["schema"])
        if schema.get("schemaType") == "JSON":
            added = set(after.get("required", [])) - set(before.get("required", []))
            return [f"{{errorType:'REQUIRED_ATTRIBUTE_ADDED', description:'... {name}'}}" for name in sorted(added)]
        fields = {field["name"]: field for field in before.get("fields", ())} if isinstance(before, dict) else {}
        new_fields = after.get("fields", []) if isinstance(after, dict) else []
        return [
            f"{{errorType:'READER_FIELD_MISSING_DEFAULT_VALUE', description:'... {field['name']}'}}"
            for field in new_fields
            if field["name"] not in fields and "default" not in field
        ]


def _checked(body: dict[str, Any]) -> dict[str, Any]:
    """The schema in a request. Raises RefusedError for an invalid one."""
    kept = {key: body[key] for key in ("schema", "schemaType", "references") if body.get(key)}
    if kept.get("schemaType") == "AVRO":
        del kept["schemaType"]
    try:
        if kept.get("schemaType") == "PROTOBUF":
            FileDescriptorProto.FromString(base64.b64decode(kept["schema"], validate=True))
        else:
            content = json.loads(kept["schema"])
            if "schemaType" not in kept and not kept.get("references"):
                fastavro.parse_schema(content)
    except Exception as error:
        kind = kept.get("schemaType", "AVRO")
        raise RefusedError(422, 42201, f"Invalid schema of type {kind}, details: {error}") from None
    return kept


def _identity(schema: dict[str, Any]) -> Any:
    """What makes two schemas the same one: not the spaces of their JSON, and not the name of a Protobuf file."""
    kind, references = schema.get("schemaType", "AVRO"), json.dumps(schema.get("references") or [])
    text = schema["schema"]
    if kind == "PROTOBUF":
        try:
            file = FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
        except Exception:  # its source
            return kind, text, references
        file.ClearField("name")
        return kind, str(file), references
    content = json.loads(text)
    if kind == "AVRO" and isinstance(content, dict) and set(content) == {"type"}:
        content = content["type"]
    return kind, json.dumps(content), references


def serialized(descriptor: Any) -> str:
    """A Protobuf file as a registry says it with `format=serialized`."""
    return base64.b64encode(descriptor.serialized_pb).decode()
