"""Avro schemas as text: their names, and schemas that refer to others made self-contained."""

import json
from typing import Any

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
_NAMED = frozenset({"record", "error", "enum", "fixed"})

Named = tuple[dict[str, Any], str]
"""Definition of a named type, and the namespace inside of it."""


def full_name(schema: Any) -> str:
    """Returns the full name of a schema, like "shop.Order"; the type's name of a primitive; empty for a union."""
    if isinstance(schema, list):
        return ""
    if not isinstance(schema, dict):
        return str(schema)
    if "name" not in schema:
        return full_name(schema["type"])
    name, namespace = str(schema["name"]), schema.get("namespace")
    return f"{namespace}.{name}" if namespace and "." not in name else name


def is_bytes(schema: Any) -> bool:
    """Returns whether a schema is the primitive "bytes". Confluent's serializers write these without a length."""
    return schema == "bytes" or (isinstance(schema, dict) and schema.get("type") == "bytes")


def check_root(schema: Any) -> None:
    """Refuses a decimal as the whole value. Serializers of other clients write bytes at the root without a length, and
    a decimal with one or without one, so that a reader cannot know. Raises ValueError.
    """
    if isinstance(schema, dict) and schema.get("type") == "bytes" and schema.get("logicalType") == "decimal":
        raise ValueError(
            "a decimal of bytes cannot be a whole value, because clients disagree about its length: make it the field "
            "of a record, or a decimal of fixed"
        )


def inline(schema: Any, referenced: dict[str, Any]) -> Any:
    """Returns the schema with the definitions that it refers to, each at its first use.

    `referenced`: schemas by full name. Raises ValueError for a name without a definition.
    """
    return _Inliner(referenced).visit(schema, "")


def collect_named(node: Any, namespace: str, named: dict[str, Named]) -> None:
    """Adds the definitions in a schema to `named`, by full name."""
    if isinstance(node, list):
        for branch in node:
            collect_named(branch, namespace, named)
    elif isinstance(node, dict):
        kind = node.get("type")
        if isinstance(kind, str) and kind in _NAMED:
            full = name_in(node["name"], node.get("namespace", namespace))
            namespace = full.rpartition(".")[0]
            named[full] = (node, namespace)
            for field in node.get("fields", ()):
                collect_named(field["type"], namespace, named)
        elif isinstance(kind, (dict, list)):
            collect_named(kind, namespace, named)
        else:
            collect_named(node.get("items"), namespace, named)
            collect_named(node.get("values"), namespace, named)


def find_named(name: str, namespace: str, named: dict[str, Named]) -> tuple[str, Named] | None:
    """Returns full name and definition of a type that is used in a namespace; None: it is not defined."""
    full = name_in(name, namespace)
    if full not in named and "." in full:
        full = full.rpartition(".")[2]  # a name without a namespace
    return (full, named[full]) if full in named else None


def name_in(name: str, namespace: str) -> str:
    """Returns the full name of a name that is used in a namespace."""
    return name if "." in name or not namespace else f"{namespace}.{name}"


def canonical_text(schema: Any) -> str:
    """Returns the JSON that is registered: short, in the order of the properties."""
    return json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


class _Inliner:
    def __init__(self, referenced: dict[str, Any]) -> None:
        self._referenced = referenced
        self._defined: set[str] = set()

    def visit(self, schema: Any, namespace: str) -> Any:
        if isinstance(schema, list):
            return [self.visit(one, namespace) for one in schema]
        if isinstance(schema, str):
            return self._name(schema, namespace)
        kind = schema["type"]
        if kind in ("array", "map"):
            inner = "items" if kind == "array" else "values"
            return {**schema, inner: self.visit(schema[inner], namespace)}
        if not isinstance(kind, str) or kind not in _NAMED:
            return {**schema, "type": self.visit(kind, namespace)}
        name = str(schema["name"])
        own = name.rpartition(".")[0] if "." in name else schema.get("namespace", namespace)
        self._defined.add(name if "." in name or not own else f"{own}.{name}")
        if "fields" not in schema:
            return schema
        fields = [{**field, "type": self.visit(field["type"], own)} for field in schema["fields"]]
        return {**schema, "fields": fields}

    def _name(self, name: str, namespace: str) -> Any:
        if name in PRIMITIVES:
            return name
        for candidate in (f"{namespace}.{name}", name) if namespace and "." not in name else (name,):
            if candidate in self._defined:
                return candidate
            found = self._referenced.get(candidate)
            if found is not None:
                # Without a namespace of its own the definition would get that of the record around it.
                return self.visit({"namespace": "", **found} if isinstance(found, dict) else found, "")
        raise ValueError(f'the schema refers to "{name}", which neither it nor a reference defines')
