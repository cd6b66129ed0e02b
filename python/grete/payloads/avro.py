"""Avro with a Schema Registry, decoded by fastavro."""

import io
import json
from typing import TYPE_CHECKING, Any

from grete.payloads.registry import Once, Schema, SchemaSource, converter, needs, source_of, unframe
from grete.payloads.typed import Decoder

if TYPE_CHECKING:
    from fastavro.types import Schema as Parsed
else:
    Parsed = Any


class Avro:
    """Values that an Avro serialiser with a Schema Registry wrote: `payload=grete.payloads.Avro("http://registry:8081")`.

    A payload is what fastavro makes of it: a dict for a record, with datetimes, Decimals and UUIDs for logical types.

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        reader: the schema to read with, as JSON text or as the dict it stands for; by default the writer's. Fields are
            resolved between the two as Avro says.
        type: what to make of each dict: a msgspec Struct, a dataclass, a TypedDict, a pydantic model.
    """

    def __init__(
        self,
        registry: str | SchemaSource,
        *,
        reader: str | dict[str, Any] | None = None,
        type: Any = None,  # noqa: A002
    ) -> None:
        needs("fastavro", "avro", "Avro")
        import fastavro

        self.gives = type if type is not None else Any
        self._registry = source_of(registry)
        self._convert = converter(type, "Avro")
        self._reader: Parsed | None = None
        if reader is not None:
            self._reader = fastavro.parse_schema(json.loads(reader) if isinstance(reader, str) else reader)
        self._writers = Once(self._writer)
        self._read = fastavro.schemaless_reader

    def decoder(self, topic: str) -> Decoder:  # noqa: ARG002 (the schema's id says it all)
        """The same for all topics."""
        return self._decode

    def _decode(self, value: bytes) -> Any:
        schema_id, data = unframe(value)
        stream = io.BytesIO(data)
        found: Any = self._read(stream, self._writers(schema_id), self._reader)
        if rest := len(data) - stream.tell():
            raise ValueError(f"{rest} bytes are left behind the data of schema {schema_id}")
        return found if self._convert is None else self._convert(found)

    def _writer(self, schema_id: int) -> Parsed:
        import fastavro

        named: dict[str, Any] = {}
        schema = self._registry.schema(schema_id)
        if schema.kind != "AVRO":
            raise ValueError(f"schema {schema_id} is {schema.kind}, not Avro")
        self._know_references(schema, named, set())
        return fastavro.parse_schema(json.loads(schema.text), named)

    def _know_references(self, schema: Schema, named: dict[str, Any], known: set[tuple[str, int]]) -> None:
        """Schemas that a schema builds on come before it, each once."""
        import fastavro

        for reference in schema.references:
            if (reference.subject, reference.version) in known:
                continue
            known.add((reference.subject, reference.version))
            found = self._registry.version(reference.subject, reference.version)
            self._know_references(found, named, known)
            fastavro.parse_schema(json.loads(found.text), named)
