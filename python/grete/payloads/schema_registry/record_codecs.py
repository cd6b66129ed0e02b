"""Encoders and decoders of the formats with a Schema Registry, which find the schema of each record."""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, cast

from grete.errors import EncodeError, GreteError, RegistryError, SchemaNotFoundError
from grete.payloads.schema_registry import wire
from grete.payloads.schema_registry.cache import DEFAULT_SIZE, Cache
from grete.payloads.schema_registry.client import SUBJECT_NOT_FOUND
from grete.payloads.schema_registry.schemas import Schema, SchemaTarget

if TYPE_CHECKING:
    from grete.payloads.schema_registry.format import RegistryFormat


@dataclass(frozen=True, slots=True)
class Writer:
    """Encoder of one type with one registered schema. `header` goes into a record header; None: the schema's id is in
    the prefix of the encodings.
    """

    encode: Callable[[Any], bytes]
    header: bytes | None


class WireDecoder(Protocol):
    """Decoder of values or keys: called with their bytes."""

    def __call__(self, value: bytes, /) -> Any:
        """Decodes a value with a prefix."""

    def with_headers(self, value: bytes, headers: Iterable[tuple[str, bytes | None]], /) -> Any:
        """Decodes a value whose schema is named in a record header, else in its prefix."""


class WireEncoder(Protocol):
    """Encoder of the values or keys of a topic: called with an object."""

    @property
    def headers(self) -> Callable[[], Sequence[tuple[str, bytes]]] | None:
        """Function that returns the headers of the object that this thread encoded last; None: there are none."""

    def __call__(self, value: Any, /) -> bytes | None:
        """Encodes an object; None is a tombstone."""


class RegistryDecoder:
    """Decoder of values or keys: called with their bytes. `with_headers` also reads a schema's GUID from a header."""

    def __init__(self, form: "RegistryFormat", part: str) -> None:
        self._decode = form.decode
        self._decode_function = form.decode_function
        self._part = part
        self.known: dict[bytes, Callable[[bytes, int], Any]] = {}
        """Functions of schemas that were decoded, by the bytes before the data."""

    def __call__(self, value: bytes) -> Any:
        """Decodes a value with a prefix."""
        schema_id, data = wire.strip_prefix(value, self._part)
        found = self._decode(schema_id, data)
        if isinstance(schema_id, int) and (function := self._decode_function(schema_id)) is not None:
            if len(self.known) >= DEFAULT_SIZE:
                self.known.clear()
            self.known[value[: wire.ID_PREFIX_SIZE]] = function
        return found

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

    def __init__(self, form: "RegistryFormat", topic: str, part: str) -> None:
        self._format = form
        self._topic = topic
        self._part = part
        life = form.options.latest_life if form.options.use_latest else None
        self._writers = Cache(self._writer, life=life)
        self._last = threading.local()
        self.known: dict[type, Callable[[Any], bytes]] = {}
        """Functions of classes that were encoded."""
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
            encoded = writer.encode(value)
        except GreteError:
            raise
        except Exception as error:
            raise self.failure(value, error) from error
        if writer.header is not None:
            self._last.header = writer.header
        elif len(self.known) < DEFAULT_SIZE:
            self.known[type(value)] = writer.encode
        return encoded

    def failure(self, value: Any, error: Exception) -> EncodeError:
        """Returns the error of an object that the format cannot write."""
        kind = type(value)
        return EncodeError(
            f'a {self._part} of topic "{self._topic}" cannot be encoded: {kind.__qualname__}: {error}',
            topic=self._topic,
            part=self._part,
            type=kind,
            field=getattr(error, "field", None),
        )

    def _headers(self) -> Sequence[tuple[str, bytes]]:
        header = getattr(self._last, "header", None)
        return () if header is None else ((wire.HEADERS[self._part], header),)

    def _writer(self, wanted: Any) -> Writer:
        form, options = self._format, self._format.options
        schema = form.check_kind(self._written_schema(wanted), f"the schema for the {self._part} of {self._topic}")
        if not options.header:
            assert schema.id is not None
            return Writer(form.prefixed_encode_function(wanted, schema, wire.id_prefix(schema.id)), None)
        encode, path = form.encode_function(wanted, schema)
        if schema.guid is None:
            raise RegistryError(
                f"header=True: {form.registry!r} names no GUID for schema {schema.id}: it needs a registry that has "
                "them (Confluent Platform 8.0); leave header out",
                subject=schema.subject,
            )
        return Writer(encode, wire.guid_header(schema.guid) + path)

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


def known_first_decoder(decoder: RegistryDecoder) -> WireDecoder:
    """Returns the decoder as a plain function, whose call costs less than that of an object, and which takes the short
    way for schemas that were decoded before.
    """
    find, size = decoder.known.get, wire.ID_PREFIX_SIZE

    def decode(value: bytes) -> Any:
        function = find(value[:size])
        return decoder(value) if function is None else function(value, size)

    vars(decode)["with_headers"] = decoder.with_headers
    return cast("WireDecoder", decode)


def known_first_encoder(encoder: RegistryEncoder) -> WireEncoder:
    """Returns the encoder as a plain function, which takes the short way for classes that were encoded before."""
    find = encoder.known.get

    def encode(value: Any) -> bytes | None:
        function = find(value.__class__)
        if function is None:
            return encoder(value)
        try:
            return function(value)
        except GreteError:
            raise
        except Exception as error:
            raise encoder.failure(value, error) from error

    vars(encode)["headers"] = None
    return cast("WireEncoder", encode)


def _with_id(schema: Schema, schema_id: int, guid: str | None) -> Schema:
    return Schema(schema.text, schema.kind, schema.references, schema_id, guid or schema.guid, schema.subject)
