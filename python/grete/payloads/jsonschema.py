"""JSON with a schema from a Schema Registry, checked by jsonschema, for reading and writing."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from grete.payloads.annotations import type_name
from grete.payloads.json_schemas import json_schema
from grete.payloads.json_types import decoder_for, installed
from grete.payloads.json_writer import json_writer, pydantic_writer
from grete.payloads.schema_registry.cache import Cache
from grete.payloads.schema_registry.conversion import (
    converter,
    is_pydantic,
    record_types,
    require_library,
    type_of,
)
from grete.payloads.schema_registry.format import RegistryFormat
from grete.payloads.schema_registry.schemas import Reference, Schema, SchemaSource
from grete.payloads.schema_registry.subjects import SubjectName, SubjectStrategy
from grete.payloads.schema_registry.wire import SchemaId

if TYPE_CHECKING:
    from jsonschema.protocols import Validator


class JsonSchema(RegistryFormat):
    """Values or keys in JSON, with a Schema Registry: `grete.payloads.JsonSchema("http://registry:8081", Order)`.

    Each value is checked against the schema that it was written with, and before it is written. Without `type` a
    payload is the JSON as dicts and lists. Reading needs the registry alone. Writing needs a schema: that of `type`,
    `schema`, or `use_latest` or `id` of the registry.

    Args:
        registry: the registry's address, or a `grete.payloads.Registry`.
        type: the type of payloads: a msgspec Struct, a dataclass, a TypedDict, a pydantic model, or several of them
            (`Order | Invoice`), distinguished by the title of the schema.
        validate: False: checks nothing; that saves most of the time.
        schema: the schema to write with, as a dict, as JSON text, or as the path of a file (`pathlib.Path`); by default
            it is derived from `type`.
        references: of `schema` to schemas that are registered; `name` is the one in `$ref`.
        subject: "TopicName", "RecordName", "TopicRecordName" (the record's name is the title of the schema), or a
            function of topic, part and record name.
        auto_register: whether the first record registers a schema that is missing; `grete schemas register` does so
            before a deployment.
        use_latest: writes with the latest version in the registry, requested again every `latest_life`.
        id: writes with the schema of this id.
        normalize: compares and registers without regard to the order of properties.
        header: names the schema by its GUID in the record header `__value_schema_id` (or `__key_schema_id`), and not
            by its id before the data.
    """

    kind: ClassVar[str] = "JSON"
    title: ClassVar[str] = "JSON Schema"

    def __init__(
        self,
        registry: str | Sequence[str] | SchemaSource,
        type: Any = None,  # noqa: A002
        *,
        validate: bool = True,
        schema: str | dict[str, Any] | Path | None = None,
        references: Sequence[Reference] = (),
        subject: SubjectName | SubjectStrategy = "TopicName",
        auto_register: bool = False,
        use_latest: bool = False,
        id: int | None = None,  # noqa: A002
        normalize: bool = False,
        header: bool = False,
        latest_life: str | float = "5m",
    ) -> None:
        require_library("jsonschema", "jsonschema", "JsonSchema")
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
        self._parse = decoder_for(Any)
        self._converters = {one: converter(one, "JsonSchema") for one in self._types}
        self._validate = validate
        self._references = tuple(references)
        self._schema = None if schema is None else self._read_schema(schema)
        if self._schema is not None and len(self._types) > 1:
            raise self._wrong("schema= is one schema, and type= has several: leave schema out", "schema")
        self._derived: dict[Any, dict[str, Any]] = {}
        self._readers = Cache(self._reader)

    def check_writable(self) -> None:
        """Raises ConfigError if nothing says which schema is written, or the type has none."""
        if self._schema is None and not self._types and not self.options.use_latest and self.options.id is None:
            raise self._wrong("encoding needs a schema: give type=, schema=, use_latest=True or id=", "schema")
        if self._schema is None and not self.options.use_latest and self.options.id is None:
            for one in self._types:
                self._derive(one)

    def types(self) -> Sequence[Any]:
        """Returns the declared types; `dict` for a schema without a type."""
        return self._types or (() if self._schema is None else (dict,))

    def type_of(self, value: Any) -> Any:
        """Returns the declared type that an object belongs to."""
        return type_of(value, self._types, "JsonSchema") if self._types else Any

    def record_name(self, wanted: Any) -> str:
        """Returns the title of the schema."""
        if self._schema is not None:
            return str(self._schema.get("title") or "")
        if wanted in (dict, Any):
            wanted = self._types[0] if self._types else None
        return "" if wanted is None else str(self._derive(wanted)["title"])

    def declared_schema(self, wanted: Any, refer: Callable[[str, Schema], Schema]) -> tuple[str, Schema]:  # noqa: ARG002
        """Returns title and schema of a type."""
        schema = self._schema
        if schema is None:
            schema = self._derive(self._types[0] if wanted in (dict, Any) else wanted)
        text = json.dumps(schema, ensure_ascii=False, separators=(",", ":"))
        return str(schema.get("title") or ""), Schema(text, "JSON", self._references)

    def encode_function(self, wanted: Any, schema: Schema) -> tuple[Callable[[Any], bytes], bytes]:
        """Returns the encoder of objects of a type."""
        encode = _encode_function(wanted)
        if not self._validate:
            return encode, b""
        check = self._check_function(schema)
        parse = self._parse

        def encode_checked(value: Any) -> bytes:
            data = encode(value)
            # A dict may hold a datetime or an Enum, so the JSON is checked and not the object.
            check(parse(data))
            return data

        return encode_checked, b""

    def decode(self, schema_id: SchemaId, data: bytes) -> Any:
        """Decodes data that was written with a schema, and checks it."""
        if not self._validate and len(self._types) <= 1:
            found = self._parse(data)
            convert = self._converters[self._types[0]] if self._types else None
            return found if convert is None else convert(found)
        check, convert = self._readers(schema_id)
        found = self._parse(data)
        if check is not None:
            check(found)
        return found if convert is None else convert(found)

    def _reader(self, schema_id: SchemaId) -> tuple[Callable[[Any], None] | None, Callable[[Any], Any] | None]:
        schema = self.fetch(schema_id)
        check = self._check_function(schema, schema_id) if self._validate else None
        if len(self._types) <= 1:
            return check, self._converters[self._types[0]] if self._types else None
        content = json.loads(schema.text)
        name = str(content.get("title") or "") if isinstance(content, dict) else ""
        found = next((one for one in self._types if self._derive(one)["title"] == name), None)
        if found is None:
            expected = " or ".join(type_name(one) for one in self._types)
            raise ValueError(f'the value is a "{name}" (schema {schema_id}), and the types are {expected}')
        return check, self._converters[found]

    def _check_function(self, schema: Schema, schema_id: SchemaId | None = None) -> Callable[[Any], None]:
        validator = self._validator(schema)
        name = schema.id if schema_id is None else schema_id

        def check(found: Any) -> None:
            # The error text of validate() has the whole schema and the whole value in it.
            for error in validator.iter_errors(found):
                raise ValueError(f"{error.message} - at `{error.json_path}` of schema {name}") from error

        return check

    def _validator(self, schema: Schema) -> "Validator":
        import jsonschema
        import referencing
        from referencing.jsonschema import DRAFT7

        named: dict[str, Any] = {}
        self._load_references(schema, named)
        content = json.loads(schema.text)
        resources = [
            (name, referencing.Resource.from_contents(found, default_specification=DRAFT7))
            for name, found in named.items()
        ]
        registry: referencing.Registry[Any] = referencing.Registry().with_resources(resources)
        kind = jsonschema.validators.validator_for(content, default=jsonschema.Draft7Validator)
        kind.check_schema(content)
        return kind(content, registry=registry)

    def _load_references(self, schema: Schema, named: dict[str, Any]) -> None:
        """Loads the referenced schemas, by the names that `$ref` uses."""
        for reference in schema.references:
            if reference.name not in named:
                found = self.registry.version(reference.subject, reference.version)
                named[reference.name] = json.loads(found.text)
                self._load_references(found, named)

    def _derive(self, wanted: Any) -> dict[str, Any]:
        found = self._derived.get(wanted)
        if found is None:
            try:
                found = self._derived[wanted] = json_schema(wanted)
            except TypeError as error:
                raise self._wrong(f"{type_name(wanted)} has no JSON Schema: {error}; give schema=", "type") from None
        return found

    def _read_schema(self, given: str | dict[str, Any] | Path) -> dict[str, Any]:
        try:
            if isinstance(given, dict):
                return given
            found = json.loads(given.read_text("utf-8") if isinstance(given, Path) else given)
        except OSError as error:
            raise self._wrong(f"schema={str(given)!r}: {error.strerror}", "schema") from None
        except ValueError as error:
            raise self._wrong(
                f"schema is not JSON: {error}; for a file write schema=Path({str(given)!r})", "schema"
            ) from None
        if not isinstance(found, dict):
            raise self._wrong(f"schema is a JSON object, not {str(given)[:80]!r}", "schema")
        return found


def _encode_function(wanted: Any) -> Callable[[Any], bytes]:
    """Returns the function that writes JSON: no spaces, UTF-8."""
    if is_pydantic(wanted):
        return pydantic_writer(wanted, by_alias=True)
    if installed("msgspec"):
        return json_writer(wanted if isinstance(wanted, type) else dict)
    return lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
