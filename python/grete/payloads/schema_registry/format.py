"""Base of the formats with a Schema Registry: their options, encoders and decoders."""

from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from grete import _units
from grete._process import callsite
from grete.errors import ConfigError
from grete.payloads.schema_registry import wire
from grete.payloads.schema_registry.client import to_schema_source
from grete.payloads.schema_registry.record_codecs import (
    RegistryDecoder,
    RegistryEncoder,
    WireDecoder,
    WireEncoder,
    known_first_decoder,
    known_first_encoder,
)
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

    def decoder(self, topic: str, part: str = "value") -> WireDecoder:  # noqa: ARG002 (the schema's id says it all)
        """Returns the decoder for values or keys. Opens nothing. Its attribute `with_headers` is a function that also
        reads a schema's GUID from a header.
        """
        return known_first_decoder(RegistryDecoder(self, wire.check_part(part)))

    def encoder(self, topic: str, part: str = "value") -> WireEncoder:
        """Returns the encoder for the values or keys of a topic. Opens nothing. Raises ConfigError if nothing says
        which schema is written.
        """
        self.check_writable()
        if self.options.id is None and not isinstance(self.registry, SchemaTarget):
            raise self._wrong(
                f"{self.registry!r} has no methods latest, lookup and register: encoding needs them, or id=", "registry"
            )
        encoder = RegistryEncoder(self, topic, wire.check_part(part))
        # A schema that is requested again, or named in a header, is found for each record.
        is_fixed = not self.options.use_latest and not self.options.header
        return known_first_encoder(encoder) if is_fixed else encoder

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

    def prefixed_encode_function(self, wanted: Any, schema: Schema, prefix: bytes) -> Callable[[Any], bytes]:
        """Returns the function that encodes objects of a type with a schema, and puts `prefix` before the data."""
        encode, path = self.encode_function(wanted, schema)
        prefix += path
        return lambda value: prefix + encode(value)

    def decode_function(self, schema_id: wire.SchemaId) -> Callable[[bytes, int], Any] | None:  # noqa: ARG002
        """Returns the function that decodes data which begins at an offset, for a schema that was decoded before. It
        raises what `decode` raises. None: there is none, and `decode` gets the data.
        """
        return None

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
