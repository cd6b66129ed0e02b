"""Base of the formats with a Schema Registry: their options, encoders and decoders."""

import threading
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from grete import _units
from grete._process import callsite
from grete.errors import ConfigError, EncodeError, GreteError, RegistryError, SchemaNotFoundError
from grete.payloads.schema_registry import wire
from grete.payloads.schema_registry.cache import Cache
from grete.payloads.schema_registry.client import SUBJECT_NOT_FOUND, to_schema_source
from grete.payloads.schema_registry.schemas import Schema, SchemaSource, SchemaTarget
from grete.payloads.schema_registry.subjects import SubjectName, SubjectStrategy, strategy_for

# Seconds for which the latest version of a subject counts as the latest one.
_LATEST_LIFE = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """Options of writing that all formats have.

    Attributes:
        subject: strategy that names the subject.
        auto_register: whether an encoder may register a schema.
        use_latest: writes with the latest version of the subject, instead of the declared schema.
        id: writes with the schema of this id.
        normalize: compares and registers without regard to the order of properties and the like.
        header: puts the schema's GUID into a record header, and not its id before the data.
        latest_life: seconds until the latest version is requested again.
    """

    subject: SubjectStrategy
    auto_register: bool = False
    use_latest: bool = False
    id: int | None = None
    normalize: bool = False
    header: bool = False
    latest_life: float = _LATEST_LIFE


@dataclass(frozen=True, slots=True)
class DeclaredSchema:
    """Schema that code declares for a part of a topic's records, as `grete schemas` checks and registers it."""

    topic: str
    part: str
    subject: str
    schema: Schema
    normalize: bool = False


@dataclass(frozen=True, slots=True)
class Writer:
    """Encoder of one type with one registered schema. `prefix` goes before the data, `header` into a record header."""

    encode: Callable[[Any], bytes]
    prefix: bytes
    header: bytes | None


class RegistryFormat:
    """Format whose records name a schema of a Schema Registry. `output_type` is the type that it decodes to."""

    kind: ClassVar[str]
    """Kind of schemas: "AVRO", "PROTOBUF" or "JSON"."""
    title: ClassVar[str]
    """Name of the kind in messages."""
    form: ClassVar[str] = ""
    """Form in which schemas are requested: "serialized" for Protobuf."""

    output_type: Any

    def __init__(
        self,
        registry: str | Sequence[str] | SchemaSource,
        *,
        subject: SubjectName | SubjectStrategy,
        auto_register: bool,
        use_latest: bool,
        id: int | None,  # noqa: A002
        normalize: bool,
        header: bool,
        latest_life: str | float,
    ) -> None:
        if sum((auto_register, use_latest, id is not None)) > 1:
            raise self._wrong("auto_register, use_latest and id exclude each other: choose one", "auto_register")
        try:
            life = _units.seconds(latest_life)
        except ValueError as error:
            raise self._wrong(f"latest_life={latest_life!r}: {error}", "latest_life") from None
        self.registry = to_schema_source(registry)
        self.options = WriteOptions(
            subject=strategy_for(subject),
            auto_register=auto_register,
            use_latest=use_latest,
            id=id,
            normalize=normalize,
            header=header,
            latest_life=life,
        )

    def decoder(self, topic: str, part: str = "value") -> "RegistryDecoder":  # noqa: ARG002 (the schema's id says it all)
        """Returns the decoder for values or keys. Opens nothing."""
        return RegistryDecoder(self, wire.check_part(part))

    def encoder(self, topic: str, part: str = "value") -> "RegistryEncoder":
        """Returns the encoder for the values or keys of a topic. Opens nothing. Raises ConfigError if nothing says
        which schema is written.
        """
        self.check_writable()
        if self.options.id is None and not isinstance(self.registry, SchemaTarget):
            raise self._wrong(
                f"{self.registry!r} has no methods latest, lookup and register: encoding needs them, or id=", "registry"
            )
        return RegistryEncoder(self, topic, wire.check_part(part))

    @abstractmethod
    def check_writable(self) -> None:
        """Raises ConfigError if nothing says which schema is written."""

    @abstractmethod
    def types(self) -> Sequence[Any]:
        """Returns the declared types, one for each schema; empty if code declares none."""

    @abstractmethod
    def type_of(self, value: Any) -> Any:
        """Returns the declared type that an object belongs to. Raises TypeError."""

    @abstractmethod
    def declared_schema(self, wanted: Any, refer: "Callable[[str, Schema], Schema]") -> tuple[str, Schema]:
        """Returns the full name and the schema of a declared type. `refer` looks up or registers a schema that it
        refers to, by its subject.
        """

    @abstractmethod
    def record_name(self, wanted: Any) -> str:
        """Returns the full name of a declared type for the subject; empty if it has none."""

    @abstractmethod
    def encode_function(self, wanted: Any, schema: Schema) -> tuple[Callable[[Any], bytes], bytes]:
        """Returns the function that encodes objects of a type with a schema, and the bytes that go before the data
        (the path of a Protobuf message).
        """

    @abstractmethod
    def decode(self, schema_id: wire.SchemaId, data: bytes) -> Any:
        """Decodes data that was written with a schema."""

    def declared(self, topic: str, part: str, refer: "Callable[[str, Schema], Schema]") -> list[DeclaredSchema]:
        """Returns the schemas that code declares for a part of a topic; empty if the registry's are used."""
        if self.options.use_latest or self.options.id is not None:
            return []
        found = []
        for wanted in self.types():
            name, schema = self.declared_schema(wanted, refer)
            subject = self.options.subject(topic, part, name)
            found.append(DeclaredSchema(topic, part, subject, schema, self.options.normalize))
        return found

    def fetch(self, schema_id: wire.SchemaId) -> Schema:
        """Returns the schema that a record names. Raises ValueError if it is of another kind."""
        if isinstance(schema_id, int):
            schema = self.registry.schema(schema_id, self.form)
        else:
            by_guid = getattr(self.registry, "guid", None)
            if by_guid is None:
                raise ValueError(
                    f"the record names its schema by GUID {schema_id}, and {self.registry!r} has no guid()"
                )
            schema = by_guid(str(schema_id), self.form)
        return self.check_kind(schema, f"schema {schema_id}")

    def check_kind(self, schema: Schema, what: str) -> Schema:
        """Returns the schema. Raises ValueError if it is of another kind."""
        if schema.kind != self.kind:
            raise ValueError(f"{what} is {schema.kind}, not {self.title}")
        return schema

    def _wrong(self, text: str, setting: str) -> ConfigError:
        return ConfigError(
            f"payloads.{type(self).__name__}: {text}", setting=setting, location=callsite.caller_location()
        )


class RegistryDecoder:
    """Decoder of values or keys: called with their bytes. `with_headers` also reads a schema's GUID from a header."""

    def __init__(self, form: RegistryFormat, part: str) -> None:
        self._decode = form.decode
        self._part = part

    def __call__(self, value: bytes) -> Any:
        """Decodes a value with a prefix."""
        schema_id, data = wire.strip_prefix(value, self._part)
        return self._decode(schema_id, data)

    def with_headers(self, value: bytes, headers: Iterable[tuple[str, bytes | None]]) -> Any:
        """Decodes a value whose schema is named in a record header, else in its prefix."""
        header = wire.find_header(headers, self._part)
        if header is None:
            return self(value)
        schema_id, path = wire.strip_prefix(header, "header")
        return self._decode(schema_id, path + value)


class RegistryEncoder:
    """Encoder of values or keys of a topic. The first object of a type requests its schema; the others need no
    request.
    """

    def __init__(self, form: RegistryFormat, topic: str, part: str) -> None:
        self._format = form
        self._topic = topic
        self._part = part
        life = form.options.latest_life if form.options.use_latest else None
        self._writers = Cache(self._writer, life=life)
        self._last = threading.local()
        self.headers: Callable[[], Sequence[tuple[str, bytes]]] | None = self._headers if form.options.header else None
        """Returns the headers of the object that this thread encoded last; None: there are no headers."""

    def __call__(self, value: Any) -> bytes | None:
        """Encodes an object; None is a tombstone. Raises EncodeError, RegistryError for a schema that is not
        registered, and RetryLater while the registry is not available.
        """
        if value is None:
            return None
        try:
            writer = self._writers(self._format.type_of(value))
            if writer.header is None:
                return writer.prefix + writer.encode(value)
            self._last.header = writer.header
            return writer.encode(value)
        except GreteError:
            raise
        except Exception as error:
            kind = type(value)
            raise EncodeError(
                f'a {self._part} of topic "{self._topic}" cannot be encoded: {kind.__qualname__}: {error}',
                topic=self._topic,
                part=self._part,
                type=kind,
                field=getattr(error, "field", None),
            ) from error

    def _headers(self) -> Sequence[tuple[str, bytes]]:
        header = getattr(self._last, "header", None)
        return () if header is None else ((wire.HEADERS[self._part], header),)

    def _writer(self, wanted: Any) -> Writer:
        form, options = self._format, self._format.options
        schema = form.check_kind(self._written_schema(wanted), f"the schema for the {self._part} of {self._topic}")
        encode, path = form.encode_function(wanted, schema)
        if not options.header:
            assert schema.id is not None
            return Writer(encode, wire.id_prefix(schema.id) + path, None)
        if schema.guid is None:
            raise RegistryError(
                f"header=True: {form.registry!r} names no GUID for schema {schema.id}: it needs a registry that has "
                "them (Confluent Platform 8.0); leave header out",
                subject=schema.subject,
            )
        return Writer(encode, b"", wire.guid_header(schema.guid) + path)

    def _written_schema(self, wanted: Any) -> Schema:
        """Returns the schema to write with, with its id."""
        form, options = self._format, self._format.options
        if options.id is not None:
            found = form.registry.schema(options.id, form.form)
            return found if found.id is not None else _with_id(found, options.id, None)
        registry = form.registry
        assert isinstance(registry, SchemaTarget)
        if options.use_latest:
            subject = options.subject(self._topic, self._part, form.record_name(wanted))
            try:
                return registry.latest(subject, form.form)
            except SchemaNotFoundError as error:
                raise self._not_registered(error, subject) from None
        name, schema = form.declared_schema(wanted, self._refer)
        subject = options.subject(self._topic, self._part, name)
        found = self._refer(subject, schema)
        if options.header and found.guid is None:  # older responses to a registration have an id only
            found = registry.lookup(subject, schema, options.normalize)
        assert found.id is not None
        return _with_id(schema, found.id, found.guid)

    def _refer(self, subject: str, schema: Schema) -> Schema:
        """Returns the registered schema, with its id and version. Registers it if that is allowed."""
        registry, options = self._format.registry, self._format.options
        assert isinstance(registry, SchemaTarget)
        if options.auto_register:
            found = registry.register(subject, schema, options.normalize)
            return found if found.version is not None else registry.lookup(subject, schema, options.normalize)
        try:
            return registry.lookup(subject, schema, options.normalize)
        except SchemaNotFoundError as error:
            raise self._not_registered(error, subject) from None

    def _not_registered(self, error: SchemaNotFoundError, subject: str) -> SchemaNotFoundError:
        kind = type(self._format).__name__
        missing = "does not exist" if error.code == SUBJECT_NOT_FOUND else "does not have the declared schema"
        return SchemaNotFoundError(
            f'subject "{subject}" {missing} in {self._format.registry!r}, and the {self._part} of topic {self._topic} '
            f"is written with it: register it with `grete schemas register MODULE:APP`, or allow this program to with "
            f"{kind}(..., auto_register=True)",
            status=404,
            code=error.code,
            subject=subject,
        )


def _with_id(schema: Schema, schema_id: int, guid: str | None) -> Schema:
    return Schema(schema.text, schema.kind, schema.references, schema_id, guid or schema.guid, schema.subject)
