"""JSON Schemas derived from Python types, by msgspec or pydantic."""

from typing import Any

from grete.payloads.annotations import type_name
from grete.payloads.schema_registry.conversion import is_pydantic, require_library

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def json_schema(wanted: Any) -> dict[str, Any]:
    """Returns the schema of a type, as a registry wants it: the record itself at the root, with a title.

    Fields with a default are not required, so that they can be added to a schema later.
    """
    if is_pydantic(wanted):
        import pydantic

        found = pydantic.TypeAdapter(wanted).json_schema(by_alias=True)
    else:
        require_library("msgspec", "msgspec", "JsonSchema(type=...)")
        import msgspec

        found = msgspec.json.schema(wanted)
    schema = _at_root(found)
    return {"$schema": _DIALECT, "title": type_name(wanted), **schema}


def _at_root(schema: dict[str, Any]) -> dict[str, Any]:
    """Returns the definition that the root refers to, in place of the reference; the others stay beside it."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions: dict[str, Any] = dict(schema["$defs"])
    name = reference.rpartition("/")[2]
    root = definitions[name]
    others = {key: value for key, value in definitions.items() if key != name}
    # A type that contains itself is still referred to.
    kept = definitions if _refers_to(reference, definitions) else others
    return {**root, "$defs": kept} if kept else dict(root)


def _refers_to(reference: str, node: Any) -> bool:
    if isinstance(node, dict):
        return node.get("$ref") == reference or any(_refers_to(reference, one) for one in node.values())
    return isinstance(node, list) and any(_refers_to(reference, one) for one in node)
