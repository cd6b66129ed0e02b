"""JSON with a schema from a Schema Registry, checked by jsonschema."""

import json
from typing import TYPE_CHECKING, Any

from grete.payloads.registry import Once, Schema, SchemaSource, converter, needs, source_of, unframe
from grete.payloads.typed import Decoder, for_type

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


class JsonSchema:
    """Values that a JSON Schema serialiser with a Schema Registry wrote: `grete.payloads.JsonSchema("http://registry:8081")`.

    Each value is checked against the schema that it was written with. A payload is the JSON as dicts and lists.

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        type: what to make of the JSON: a msgspec Struct, a dataclass, a TypedDict, a pydantic model.
        validate: False: believe the writer, who had checked it; that saves most of the time.
    """

    def __init__(self, registry: str | SchemaSource, *, type: Any = None, validate: bool = True) -> None:  # noqa: A002
        needs("jsonschema", "jsonschema", "JsonSchema")
        self.gives = type if type is not None else Any
        self._registry = source_of(registry)
        self._parse = for_type(Any)
        self._convert = converter(type, "JsonSchema")
        self._validate = validate
        self._validators = Once(self._validator)

    def decoder(self, topic: str) -> Decoder:  # noqa: ARG002 (the schema's id says it all)
        """The same for all topics."""
        return self._decode

    def _decode(self, value: bytes) -> Any:
        schema_id, data = unframe(value)
        found = self._parse(data)
        if self._validate:
            # The error of validate() has the whole schema and the whole value in its text.
            for error in self._validators(schema_id).iter_errors(found):
                raise ValueError(f"{error.message} - at `{error.json_path}` of schema {schema_id}") from error
        return found if self._convert is None else self._convert(found)

    def _validator(self, schema_id: int) -> "Validator":
        import jsonschema
        import referencing
        from referencing.jsonschema import DRAFT7

        schema = self._registry.schema(schema_id)
        if schema.kind != "JSON":
            raise ValueError(f"schema {schema_id} is {schema.kind}, not JSON Schema")
        named: dict[str, Any] = {}
        self._know_references(schema, named)
        content = json.loads(schema.text)
        resources = [
            (name, referencing.Resource.from_contents(found, default_specification=DRAFT7))
            for name, found in named.items()
        ]
        registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
        kind = jsonschema.validators.validator_for(content, default=jsonschema.Draft7Validator)
        kind.check_schema(content)
        return kind(content, registry=registry)

    def _know_references(self, schema: Schema, named: dict[str, Any]) -> None:
        """By the name that a `$ref` uses."""
        for reference in schema.references:
            if reference.name not in named:
                found = self._registry.version(reference.subject, reference.version)
                named[reference.name] = json.loads(found.text)
                self._know_references(found, named)
