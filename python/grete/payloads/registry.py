"""A Schema Registry: the frame around what its serialisers write, and a client that reads schemas.

A framed value is a zero byte, the schema's id (four bytes, big endian), and the data. The client is small: it reads
schemas by id and by subject and version, with basic or bearer authentication. A registry that wants more (OAuth, mTLS
with rotating keys) is reached through an object of your own with the same two methods.
"""

import base64
import http.client
import json
import ssl
import struct
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import monotonic
from typing import Any, Generic, Protocol, TypeVar

from grete import _place, units
from grete.errors import ConfigError, RetryLater

T = TypeVar("T")

_HEAD = struct.Struct(">BI")
_MAGIC = 0

# How long records wait for a registry that does not answer, before it is asked again; doubled up to the longest.
_AGAIN = 1.0
_LONGEST_AGAIN = 30.0
# A schema is text that people write; what is longer than this is none.
_LONGEST_ANSWER = 16 << 20


@dataclass(frozen=True, slots=True)
class Reference:
    """Another schema that a schema builds on: `name` is what it is called there."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A schema as the registry keeps it. `kind` is "AVRO", "PROTOBUF" or "JSON"."""

    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()


class SchemaSource(Protocol):
    """What the formats need of a registry. Called from many threads, once for each schema in the best case.

    Raise `grete.RetryLater` if it cannot be reached: a record that waits is better than a dead letter.
    """

    def schema(self, schema_id: int, form: str = "") -> Schema:
        """The schema with this id. `form`: "serialized" for Protobuf as a descriptor; a registry may ignore it."""

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        """A version of a subject, for references."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Whoever is redirected to would get our password, too."""

    def redirect_request(self, *_: Any) -> None:
        """An answer as any other that is no schema."""


class Registry:
    """A Schema Registry over HTTP. It is contacted when the first record needs it, and asked once for each schema.

    Args:
        url: like "https://registry:8081"; a user and password in it are used.
        user: for basic authentication, with `password`.
        token: for bearer authentication.
        ca: file with the certificates to trust, for https; the system's without it.
        timeout: for one answer, "5s" or seconds. A worker waits that long; when there was none, all records that want a
            schema wait for a while (up to 30 s) without asking, so that a registry that is down blocks no workers.
        headers: sent with each request.
    """

    def __init__(
        self,
        url: str,
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        ca: str | None = None,
        timeout: str | float = "5s",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        try:
            parts = urllib.parse.urlsplit(url)
            port = f":{parts.port}" if parts.port else ""
            self._timeout = units.seconds(timeout)
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(f"Registry({url!r}): {error}", setting="url", location=_place.caller()) from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(
                f'Registry({url!r}): the address of a registry is like "http://localhost:8081"',
                setting="url",
                location=_place.caller(),
            )
        user = user if user is not None else parts.username and urllib.parse.unquote(parts.username)
        password = password if password is not None else parts.password and urllib.parse.unquote(parts.password)
        if user and token:
            raise ConfigError(
                "Registry: user and token are two ways to say who you are: use one",
                setting="token",
                location=_place.caller(),
            )
        host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
        self.url = f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}"
        self._headers = {"Accept": "application/vnd.schemaregistry.v1+json, application/json", **(headers or {})}
        if user:
            pair = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"
        handlers: list[urllib.request.BaseHandler] = [_NoRedirect()]
        if parts.scheme == "https":
            try:
                handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=ca)))
            except OSError as error:
                raise ConfigError(f"Registry(ca={ca!r}): {error}", setting="ca", location=_place.caller()) from None
        self._opener = urllib.request.build_opener(*handlers)
        self._failures = 0
        self._quiet_until = 0.0
        self._trouble = ""

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, schema_id: int, form: str = "") -> Schema:
        """The schema with this id. LookupError if there is none, RetryLater if the registry cannot be asked now."""
        return self._get(f"/schemas/ids/{schema_id}", form, f"a schema with id {schema_id}")

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        """A version of a subject."""
        quoted = urllib.parse.quote(subject, safe="")
        return self._get(f"/subjects/{quoted}/versions/{version}", form, f"version {version} of {subject}")

    def _get(self, path: str, form: str, what: str) -> Schema:
        # Two threads may both find it quiet no longer and both ask; nothing is wrong with that.
        if (left := self._quiet_until - monotonic()) > 0:
            raise RetryLater(left, self._trouble)
        query = f"?format={form}" if form else ""
        request = urllib.request.Request(f"{self.url}{path}{query}", headers=self._headers)  # noqa: S310 (checked above)
        try:
            with self._opener.open(request, timeout=self._timeout) as answer:
                body = answer.read(_LONGEST_ANSWER)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == 404:
                    raise LookupError(f"the schema registry {self.url} has not {what}") from None
                # Who may not read, too, is not the record's fault: it waits until the rights are right.
                verb = f"refuses {what} to us:" if error.code in (401, 403) else "answers"
                raise self._later(f"{verb} {error.code} {error.reason}") from None
        except (OSError, http.client.HTTPException) as error:
            raise self._later(f"does not answer: {getattr(error, 'reason', error)}") from error
        self._failures = 0
        try:
            found = json.loads(body)
            references = tuple(
                Reference(one["name"], one["subject"], one["version"]) for one in found.get("references") or ()
            )
            return Schema(found["schema"], found.get("schemaType") or "AVRO", references)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise LookupError(f"{self.url}{path} does not answer like a schema registry: {body[:80]!r}") from error

    def _later(self, what: str) -> RetryLater:
        self._trouble = f"the schema registry {self.url} {what}"
        wait = min(_LONGEST_AGAIN, _AGAIN * 2**self._failures)
        self._failures = min(self._failures + 1, 10)
        self._quiet_until = monotonic() + wait
        return RetryLater(wait, self._trouble)


def source_of(registry: str | SchemaSource) -> SchemaSource:
    """A registry that is given by its address, or as an object."""
    return Registry(registry) if isinstance(registry, str) else registry


def unframe(value: bytes) -> tuple[int, bytes]:
    """The schema's id and the data. ValueError if the value does not begin like a framed one."""
    if len(value) < _HEAD.size or value[0] != _MAGIC:
        begins = f"begins with byte {value[0]}" if value else "is empty"
        if value and value[0] == _MAGIC:
            begins = f"has {len(value)} bytes only"
        raise ValueError(
            f"the value {begins}: a value with a schema registry begins with byte 0 and four bytes of schema id; "
            "was it written without one?"
        )
    return _HEAD.unpack_from(value)[1], value[_HEAD.size :]


class Once(Generic[T]):
    """What is made of each schema, made once though many threads want it."""

    def __init__(self, make: Callable[[Any], T]) -> None:
        self._make = make
        self._made: dict[Any, T] = {}
        self._lock = threading.Lock()

    def __call__(self, key: Any) -> T:
        made = self._made.get(key)
        if made is None:
            with self._lock:
                made = self._made.get(key)
                if made is None:
                    made = self._made[key] = self._make(key)
        return made


def needs(library: str, extra: str, what: str) -> None:
    """Refuses a format whose library is not installed, where the format is declared."""
    import importlib.util

    if importlib.util.find_spec(library) is None:
        raise ConfigError(
            f'payloads.{what} needs {library}: pip install "grete[{extra}]"',
            setting="payload",
            location=_place.caller(),
        )


def converter(wanted: Any, what: str) -> Callable[[Any], Any] | None:
    """What makes a `type=` of plain dicts and lists; None: nothing is to be made."""
    if wanted is None:
        return None
    if hasattr(wanted, "__pydantic_validator__"):
        import pydantic

        return pydantic.TypeAdapter(wanted).validate_python
    needs("msgspec", "msgspec", f"{what}(type=...)")
    import msgspec

    return lambda found: msgspec.convert(found, wanted)
