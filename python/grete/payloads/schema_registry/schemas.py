"""Schemas as a registry has them, and the methods that the formats need of a registry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable


@dataclass(frozen=True, slots=True)
class Reference:
    """Reference of a schema to another one: `name` is the name used in the schema."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """Schema as text. `kind` is "AVRO", "PROTOBUF" or "JSON".

    Attributes:
        id: in the registry; None: the schema comes from code.
        guid: UUID in the registry; None: older registries have none.
        subject, version: where it was found; None: it was found by its id.
    """

    text: str
    kind: str = "AVRO"
    references: tuple[Reference, ...] = ()
    id: int | None = None
    guid: str | None = None
    subject: str | None = None
    version: int | None = None


class SchemaSource(Protocol):
    """Methods that reading needs of a registry. Called from many threads, ideally once for each schema.

    Raise `grete.RetryLater` if it cannot be reached: a record that waits is better than a dead letter.
    """

    def schema(self, schema_id: int, form: str = "") -> Schema:
        """Returns the schema with this id. `form`: "serialized" for Protobuf as a descriptor; a registry may
        ignore it.
        """

    def version(self, subject: str, version: int, form: str = "") -> Schema:
        """Returns a version of a subject, for references."""


@runtime_checkable
class SchemaTarget(Protocol):
    """Methods that writing needs of a registry, beside those of `SchemaSource`."""

    def latest(self, subject: str, form: str = "") -> Schema:
        """Returns the latest version of a subject."""

    def lookup(self, subject: str, schema: Schema, normalize: bool = False) -> Schema:
        """Returns the registered schema that equals this one, with id and version. Raises SchemaNotFoundError."""

    def register(self, subject: str, schema: Schema, normalize: bool = False) -> Schema:
        """Registers a schema, unless it is registered, and returns it with its id."""


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Result of a check before a schema is registered. `messages`: what contradicts earlier versions."""

    compatible: bool
    messages: Sequence[str] = ()
