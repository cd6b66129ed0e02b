"""Avro with a Schema Registry, for reading and writing."""

import decimal
import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar

from grete._native import ArrowColumns, AvroCodec, Messages
from grete.errors import ConfigError
from grete.payloads import avro_schemas
from grete.payloads.annotations import type_name
from grete.payloads.avro_codec import columns, compile_codec
from grete.payloads.avro_types import shapes
from grete.payloads.avro_types.attributes import has_written_attributes
from grete.payloads.avro_types.derive import avro_schema
from grete.payloads.schema_registry.cache import Cache
from grete.payloads.schema_registry.conversion import (
    converter,
    plain_function,
    record_types,
    type_of,
)
from grete.payloads.schema_registry.format import RegistryFormat
from grete.payloads.schema_registry.schemas import Reference, Schema, SchemaSource
from grete.payloads.schema_registry.subjects import SubjectName, SubjectStrategy
from grete.payloads.schema_registry.wire import SchemaId


class Avro(RegistryFormat):
    """Values or keys in Avro, with a Schema Registry: `payload=grete.payloads.Avro("http://registry:8081", Order)`.

    Without `type` a payload is a dict for a record, with datetimes, Decimals and UUIDs for logical types. Reading needs
    the registry alone. Writing needs a schema: that of `type`, `schema`, or `use_latest` or `id` of the registry.

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        type: the type of payloads: a msgspec Struct, a dataclass, a TypedDict, a pydantic model, or several of them
            (`Order | Invoice`), distinguished by the name of the record.
        schema: the schema to write with, as a dict, as JSON text, or as the path of a file (`pathlib.Path`); by default
            it is derived from `type`.
        reader: the schema to read with, in the same forms; by default the writer's. Fields are resolved between the two
            by Avro's rules.
        namespace: of the records in a derived schema.
        references: of `schema` to schemas that are registered.
        subject: "TopicName", "RecordName", "TopicRecordName", or a function of topic, part and record name.
        auto_register: whether the first record registers a schema that is missing; `grete schemas register` does so
            before a deployment.
        use_latest: writes with the latest version in the registry, requested again every `latest_life`.
        id: writes with the schema of this id.
        normalize: compares and registers without regard to the order of properties.
        header: names the schema by its GUID in the record header `__value_schema_id` (or `__key_schema_id`), and not
            by its id before the data.
    """

    kind: ClassVar[str] = "AVRO"
    title: ClassVar[str] = "Avro"

    def __init__(
        self,
        registry: str | Sequence[str] | SchemaSource,
        type: Any = None,  # noqa: A002
        *,
        schema: str | dict[str, Any] | list[Any] | Path | None = None,
        reader: str | dict[str, Any] | list[Any] | Path | None = None,
        namespace: str = "",
        references: Sequence[Reference] = (),
        subject: SubjectName | SubjectStrategy = "TopicName",
        auto_register: bool = False,
        use_latest: bool = False,
        id: int | None = None,  # noqa: A002
        normalize: bool = False,
        header: bool = False,
        latest_life: str | float = "5m",
    ) -> None:
        super().__init__(
            registry,
            subject=subject,
            auto_register=auto_register,
            use_latest=use_latest,
            id=id,
            normalize=normalize,
            header=header,
            latest_life=latest_life,
        )
        self.output_type = type if type is not None else Any
        self._types = () if type is None or type is Any else record_types(type)
        for one in self._types:
            converter(one, "Avro")  # which refuses a type whose library is missing
        self._schema = None if schema is None else self._read_schema(schema, "schema")
        wanted = None if reader is None else self._read_schema(reader, "reader")
        self._reader = None if wanted is None else avro_schemas.canonical_text(wanted)
        self._references = tuple(references)
        for given, setting in ((self._schema, "schema"), (wanted, "reader")):
            try:
                avro_schemas.check_root(given)
            except ValueError as error:
                raise self._wrong(str(error), setting) from None
        if decimal.Decimal in self._types and self._schema is None:
            raise self._wrong(
                "type=Decimal is a whole value, and a decimal is the field of a record: give the type of a record",
                "type",
            )
        if self._schema is not None and len(self._types) > 1:
            raise self._wrong("schema= is one schema, and type= has several: leave schema out", "schema")
        self._derived: dict[Any, Any] = {}
        self._namespace = namespace
        if self._schema is None and len(self._types) > 1:
            for one in self._types:
                self._derive(one)
        self._decoders = Cache(self._decoder)
        self._column_codecs = Cache(self._column_codec)

    def check_writable(self) -> None:
        """Raises ConfigError if nothing says which schema is written, or the type has none."""
        if self._schema is None and not self._types and not self.options.use_latest and self.options.id is None:
            raise self._wrong("encoding needs a schema: give type=, schema=, use_latest=True or id=", "schema")
        for one in self._types:
            plain_function(one, "Avro")
            if self._schema is None and not self.options.use_latest and self.options.id is None:
                self._derive(one)

    def types(self) -> Sequence[Any]:
        """Returns the declared types; `dict` for a schema without a type."""
        return self._types or (() if self._schema is None else (dict,))

    def type_of(self, value: Any) -> Any:
        """Returns the declared type that an object belongs to."""
        kind = type(value)
        if kind in self._types:  # saves a call for each record
            return kind
        return type_of(value, self._types, "Avro") if self._types else Any

    def record_name(self, wanted: Any) -> str:
        """Returns the full name of the record."""
        if self._schema is not None:
            return avro_schemas.full_name(self._schema)
        if wanted is dict or wanted is Any:
            wanted = self._types[0] if self._types else None
        return "" if wanted is None else avro_schemas.full_name(self._derive(wanted))

    def declared_schema(self, wanted: Any, refer: Callable[[str, Schema], Schema]) -> tuple[str, Schema]:  # noqa: ARG002
        """Returns name and schema of a type."""
        if self._schema is not None:
            schema = self._schema
        else:
            schema = self._derive(self._types[0] if wanted in (dict, Any) else wanted)
        text = avro_schemas.canonical_text(schema)
        return avro_schemas.full_name(schema), Schema(text, "AVRO", self._references)

    def encode_function(self, wanted: Any, schema: Schema) -> tuple[Callable[[Any], bytes], bytes]:
        """Returns the encoder of objects of a type."""
        return self.prefixed_encode_function(wanted, schema, b""), b""

    def prefixed_encode_function(self, wanted: Any, schema: Schema, prefix: bytes) -> Callable[[Any], bytes]:
        """Returns the encoder of objects of a type. The codec writes the prefix itself."""
        content = self._self_contained(schema)
        avro_schemas.check_root(content)
        if avro_schemas.is_bytes(content):
            return lambda value: prefix + _encode_bytes(value)
        encode = compile_codec(avro_schemas.canonical_text(content), prefix=prefix).encode
        if wanted in (dict, Any) or has_written_attributes(content, wanted):
            return encode
        plain, reshape = plain_function(wanted, "Avro"), shapes.writing(wanted)
        if reshape is None:
            return lambda value: encode(plain(value))
        return lambda value: encode(reshape(plain(value)))

    def decode(self, schema_id: SchemaId, data: bytes) -> Any:
        """Decodes data that was written with a schema."""
        return self._decoders(schema_id)(data, 0)

    def decode_function(self, schema_id: SchemaId) -> Callable[[bytes, int], Any]:
        """Returns the decoder of data that was written with a schema."""
        return self._decoders(schema_id)

    def to_arrow(self, messages: Messages) -> ArrowColumns:
        """Decodes the values of records into Arrow columns, without Python objects in between: for pyarrow, polars and
        duckdb, which take the result.

        There is one row for each record; that of a tombstone is null in all columns. The columns are those of `reader`;
        without it, those of the schema of the first value. Values with other schemas are resolved to these columns by
        Avro's rules.

        Args:
            messages: records of one partition, with a schema's id before each value.

        Raises DecodeError with the record that does not decode, ValueError for a schema that Arrow has no types for,
        and RetryLater while the registry is not available.
        """
        return columns(messages, self._column_codecs)

    def _decoder(self, schema_id: SchemaId) -> Callable[[bytes, int], Any]:
        content = self._self_contained(self.fetch(schema_id))
        avro_schemas.check_root(content)
        into = self._type_named(avro_schemas.full_name(content), schema_id)
        if avro_schemas.is_bytes(content) and self._reader is None:
            make = converter(into, "Avro") or bytes
            return lambda data, start: make(data[start:])
        text = avro_schemas.canonical_text(content)
        decode = compile_codec(text, reader=self._reader, into=into, convert=_reshaping_converter(into)).decode

        def decode_named(data: bytes, start: int) -> Any:
            try:
                return decode(data, start)
            except ValueError as error:
                if str(error).endswith("remain after the data"):
                    raise ValueError(f"{error} of schema {schema_id}") from None
                raise

        return decode_named

    def _column_codec(self, schema_id: int) -> AvroCodec:
        content = self._self_contained(self.fetch(schema_id))
        return AvroCodec(avro_schemas.canonical_text(content), self._reader)

    def _type_named(self, name: str, schema_id: SchemaId) -> Any:
        """Returns the declared type that has the name of the writer's record; None: there are no types."""
        if len(self._types) <= 1:
            return self._types[0] if self._types else None
        names = {avro_schemas.full_name(self._derive(one)): one for one in self._types}
        last = name.rpartition(".")[2]
        found = names.get(name) or next((one for key, one in names.items() if key.rpartition(".")[2] == last), None)
        if found is None:
            expected = " or ".join(type_name(one) for one in self._types)
            raise ValueError(f"the value is a {name} (schema {schema_id}), and the types are {expected}")
        return found

    def _derive(self, wanted: Any) -> Any:
        found = self._derived.get(wanted)
        if found is None:
            try:
                found = self._derived[wanted] = avro_schema(wanted, self._namespace)
            except ConfigError as error:
                raise self._wrong(str(error), "type") from None
        return found

    def _read_schema(self, given: str | dict[str, Any] | list[Any] | Path, setting: str) -> Any:
        try:
            if isinstance(given, Path):
                return json.loads(given.read_text("utf-8"))
            if isinstance(given, str) and given not in avro_schemas.PRIMITIVES:
                return json.loads(given)
            return given
        except OSError as error:
            raise self._wrong(f"{setting}={str(given)!r}: {error.strerror}", setting) from None
        except ValueError as error:
            hint = (
                f"; for a file write {setting}=Path({given!r})" if isinstance(given, str) and "{" not in given else ""
            )
            raise self._wrong(f"{setting} is not JSON: {error}{hint}", setting) from None

    def _self_contained(self, schema: Schema) -> Any:
        """Returns the schema with the definitions of the schemas that it refers to."""
        named: dict[str, Any] = {}
        self._load_references(schema, named, set())
        content = json.loads(schema.text)
        return avro_schemas.inline(content, named) if named else content

    def _load_references(self, schema: Schema, named: dict[str, Any], known: set[tuple[str, int]]) -> None:
        for reference in schema.references:
            if (reference.subject, reference.version) in known:
                continue
            known.add((reference.subject, reference.version))
            found = self.registry.version(reference.subject, reference.version)
            content = json.loads(found.text)
            named[reference.name] = named[avro_schemas.full_name(content)] = content
            self._load_references(found, named, known)


def _reshaping_converter(into: Any) -> Callable[[Any], Any] | None:
    convert = converter(into, "Avro")
    reshape = None if convert is None else shapes.reading(into)
    if convert is None or reshape is None:
        return convert
    return lambda found: convert(reshape(found))


def _encode_bytes(value: Any) -> bytes:
    return value.encode() if isinstance(value, str) else bytes(value)
