"""JSON Schemas of payload types, for the components of a document."""

import contextlib
import typing
from typing import Any

from grete.payloads.json_types import installed, is_type

_REFERENCE = "#/components/schemas/{}"
_JSON = "application/json"
_TEXT = "text/plain"
_BYTES = "application/octet-stream"
_FORMATS = {"Avro": "application/vnd.apache.avro", "Protobuf": "application/x-protobuf", "JsonSchema": _JSON}


class Schemas:
    """Schemas of one document, by name. Types of one name and different contents get numbers."""

    def __init__(self) -> None:
        self.components: dict[str, Any] = {}

    def describe(self, spec: Any) -> tuple[str | None, Any]:
        """Returns content type and schema of a payload, a type or a format; None for what is not known."""
        spec = _plain(spec)
        if spec is None or isinstance(spec, (list, dict)):
            return None, None
        if spec is bytes:
            return _BYTES, {"type": "string", "format": "binary"}
        if spec is str:
            return _TEXT, {"type": "string"}
        if spec == "json" or spec is Any:
            return _JSON, {}
        if is_type(spec):
            if hasattr(spec, "DESCRIPTOR"):
                return _FORMATS["Protobuf"], None
            return _JSON, self._of_type(spec)
        content = _FORMATS.get(type(spec).__name__)
        output = _plain(getattr(spec, "output_type", None))
        if content is None or output is None or output is Any or not is_type(output) or hasattr(output, "DESCRIPTOR"):
            return content, None
        return content, self._of_type(output)

    def _of_type(self, wanted: Any) -> Any:
        """Returns a schema with references to `components`; None: no library can describe the type."""
        made = _pydantic(wanted) if hasattr(wanted, "__pydantic_validator__") else _msgspec(wanted) or _pydantic(wanted)
        if made is None:
            return None
        schema, components = made
        renamed = {name: self._add(name, component) for name, component in components.items()}
        for name in renamed.values():
            self.components[name] = _rename(self.components[name], renamed)
        return _rename(schema, renamed)

    def _add(self, name: str, component: Any) -> str:
        free, number = name, 1
        while free in self.components and self.components[free] != component:
            number += 1
            free = f"{name}{number}"
        self.components[free] = component
        return free


def _plain(spec: Any) -> Any:
    """Returns the type without `None`, which is a tombstone."""
    arguments = [one for one in typing.get_args(spec) if one is not type(None)]
    if len(arguments) == 1 and type(None) in typing.get_args(spec):
        return arguments[0]
    return spec


def _msgspec(wanted: Any) -> tuple[Any, dict[str, Any]] | None:
    if not installed("msgspec"):
        return None
    import msgspec

    with contextlib.suppress(TypeError):
        (schema,), components = msgspec.json.schema_components([wanted], ref_template=_REFERENCE.format("{name}"))
        return schema, components
    return None


def _pydantic(wanted: Any) -> tuple[Any, dict[str, Any]] | None:
    if not installed("pydantic"):
        return None
    import pydantic

    try:
        schema = pydantic.TypeAdapter(wanted).json_schema(ref_template=_REFERENCE.format("{model}"))
    except (pydantic.errors.PydanticUserError, TypeError):
        return None
    components = schema.pop("$defs", {})
    title = schema.get("title")
    if not title or "$ref" in schema:
        return schema, components
    return {"$ref": _REFERENCE.format(title)}, {**components, title: schema}


def _rename(schema: Any, names: dict[str, str]) -> Any:
    if isinstance(schema, dict):
        return {
            key: _REFERENCE.format(_renamed(value, names))
            if key == "$ref" and isinstance(value, str)
            else _rename(value, names)
            for key, value in schema.items()
        }
    return [_rename(one, names) for one in schema] if isinstance(schema, list) else schema


def _renamed(reference: str, names: dict[str, str]) -> str:
    name = reference.rpartition("/")[2]
    return names.get(name, name)
