"""Client of a Schema Registry over HTTP: schemas by id, GUID and subject, registration, compatibility."""

import urllib.parse
from collections.abc import Mapping, Sequence
from ssl import SSLContext
from typing import Any

from grete.errors import ConfigError, IncompatibleSchemaError, RegistryError, SchemaNotFoundError
from grete.payloads.schema_registry.schemas import Compatibility, Reference, Schema, SchemaSource
from grete.payloads.schema_registry.transport import Auth, Transport

SUBJECT_NOT_FOUND = 40401
"""The registry's error code for a subject that does not exist."""


class Registry:
    """Schema Registry over HTTP. The first request is made when a record needs it, then one for each schema.

    Args:
        url: like "https://registry:8081"; a user and password in it are used. Several addresses of one registry, as a
            list or with commas between them, are tried one after the other.
        user: for basic authentication, with `password`.
        token: for bearer authentication.
        auth: `ClientCredentials` of OAuth 2.0, or a function that returns a bearer token before each request.
        ca: file with the certificates to trust, for https; the system's without it.
        cert, key, key_password: client certificate for mutual TLS, its key if it is in another file.
        ssl_context: for all other settings of TLS.
        timeout: for one response of one address, "5s" or seconds. After a failure all records that need a schema wait
            for a while (up to 30 s) without requests, so that a registry that is down blocks no workers.
        headers: sent with each request.
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None = None,
        password: str | None = None,
        token: str | None = None,
        auth: Auth | None = None,
        ca: str | None = None,
        cert: str | None = None,
        key: str | None = None,
        key_password: str | None = None,
        ssl_context: SSLContext | None = None,
        timeout: str | float = "5s",
        headers: Mapping[str, str] | None = None,
    ) -> None:
        tls = {"ca": ca, "cert": cert, "key": key, "key_password": key_password, "context": ssl_context}
        self._transport = Transport(
            url, user=user, password=password, token=token, auth=auth, tls=tls, timeout=timeout, headers=headers
        )
        self.url = ",".join(self._transport.urls)

    def __repr__(self) -> str:
        return f"Registry({self.url!r})"

    def schema(self, schema_id: int, form: str = "") -> Schema:
        """Returns the schema with this id. Raises SchemaNotFoundError if there is none, RetryLater if the registry is
        not available now.
        """
        found = self._get(f"/schemas/ids/{schema_id}", form, f"a schema with id {schema_id}")
        return self._parse(found, schema_id=schema_id)

    def guid(self, guid: str, form: str = "") -> Schema:
        """Returns the schema with this GUID (a UUID as text), which is the same in all registries."""
        return self._parse(self._get(f"/schemas/guids/{guid}", form, f"a schema with GUID {guid}"))

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        """Returns a version of a subject."""
        path = f"/subjects/{_quote(subject)}/versions/{version}"
        return self._parse(self._get(path, form, f"version {version} of {subject}"))

    def latest(self, subject: str, form: str = "") -> Schema:
        """Returns the latest version of a subject. Raises SchemaNotFoundError if there is none."""
        path = f"/subjects/{_quote(subject)}/versions/latest"
        return self._parse(self._get(path, form, f'a subject "{subject}"'))

    def lookup(self, subject: str, schema: Schema, normalize: bool = False) -> Schema:
        """Returns the registered schema that equals this one, with its id and version.

        `normalize`: compares without regard to the order of properties and the like. Raises SchemaNotFoundError if the
        subject does not have the schema.
        """
        path = f"/subjects/{_quote(subject)}{_normalized(normalize)}"
        return self._parse(self._ask("POST", path, f'this schema in subject "{subject}"', schema, subject))

    def register(self, subject: str, schema: Schema, normalize: bool = False) -> Schema:
        """Registers a schema under a subject, unless it is registered, and returns it with its id.

        Raises IncompatibleSchemaError if the schema contradicts earlier versions, RegistryError if it is invalid.
        """
        path = f"/subjects/{_quote(subject)}/versions{_normalized(normalize)}"
        found = self._ask("POST", path, f'a new version of subject "{subject}"', schema, subject)
        if not isinstance(found, dict) or not isinstance(found.get("id"), int):
            raise self._transport.wrong_answer(path, found)
        guid, version = found.get("guid"), found.get("version")
        return Schema(schema.text, schema.kind, schema.references, found["id"], guid, subject, version)

    def check(self, subject: str, schema: Schema, normalize: bool = False) -> Compatibility:
        """Returns whether the registry would accept the schema, by the compatibility level of the subject. Nothing is
        registered.

        Raises SchemaNotFoundError if the subject does not exist, RegistryError if the schema is invalid.
        """
        query = "?verbose=true&normalize=true" if normalize else "?verbose=true"
        path = f"/compatibility/subjects/{_quote(subject)}/versions{query}"
        found = self._ask("POST", path, f'the check of a schema for subject "{subject}"', schema, subject)
        if not isinstance(found, dict) or "is_compatible" not in found:
            raise self._transport.wrong_answer(path, found)
        return Compatibility(bool(found["is_compatible"]), tuple(map(str, found.get("messages") or ())))

    def _get(self, path: str, form: str, what: str) -> Any:
        return self._ask("GET", f"{path}?format={form}" if form else path, what)

    def _ask(self, method: str, path: str, what: str, schema: Schema | None = None, subject: str | None = None) -> Any:
        try:
            return self._transport.request(method, path, what, None if schema is None else _body(schema))
        except RegistryError as error:
            if error.status == 404:
                raise SchemaNotFoundError(str(error), status=404, code=error.code, subject=subject) from None
            if error.status == 409:
                raise IncompatibleSchemaError(str(error), status=409, code=error.code, subject=subject) from None
            error.subject = subject
            raise

    def _parse(self, found: Any, schema_id: int | None = None) -> Schema:
        try:
            references = tuple(
                Reference(one["name"], one["subject"], one["version"]) for one in found.get("references") or ()
            )
            text, kind = found["schema"], found.get("schemaType") or "AVRO"
            if not isinstance(text, str):
                raise TypeError("schema")
            found_id = found.get("id", schema_id)
            return Schema(
                text, kind, references, found_id, found.get("guid"), found.get("subject"), found.get("version")
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise self._transport.wrong_answer("", found) from error


def to_schema_source(registry: "str | Sequence[str] | SchemaSource") -> SchemaSource:
    """Returns the registry for an address, or the object itself. Raises ConfigError."""
    if isinstance(registry, (str, list, tuple)):
        return Registry(registry)
    if not hasattr(registry, "schema"):
        raise ConfigError(
            f'{registry!r} is no schema registry: give its address, like "http://localhost:8081", or a '
            "grete.payloads.Registry",
            setting="registry",
        )
    return registry  # type: ignore[return-value]


def _quote(subject: str) -> str:
    return urllib.parse.quote(subject, safe="")


def _normalized(normalize: bool) -> str:
    return "?normalize=true" if normalize else ""


def _body(schema: Schema) -> dict[str, Any]:
    """Returns the body of a request with a schema; the registry's default kind is Avro."""
    body: dict[str, Any] = {"schema": schema.text}
    if schema.kind != "AVRO":
        body["schemaType"] = schema.kind
    if schema.references:
        body["references"] = [
            {"name": one.name, "subject": one.subject, "version": one.version} for one in schema.references
        ]
    return body
