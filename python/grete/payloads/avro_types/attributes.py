"""Test whether the native codec may encode objects of a type by their attributes, or needs dicts of plain values.

The codec reads an attribute for each field of a record. Dicts are needed where the names or the values of attributes
are not those that are written: renamed fields, aliases, serializers, tags, fields that can be unset, enums of numbers.
"""

import dataclasses
import datetime
import decimal
import enum
import types
import typing
import uuid
from typing import Annotated, Any, Literal

from grete.payloads.avro_schemas import Named, collect_named, find_named
from grete.payloads.avro_types.shapes import is_named_tuple

# The conversion to dicts leaves these as they are.
_UNCHANGED = frozenset(
    {
        type(None),
        bool,
        int,
        float,
        str,
        bytes,
        bytearray,
        datetime.datetime,
        datetime.date,
        datetime.time,
        datetime.timedelta,
        decimal.Decimal,
        uuid.UUID,
    }
)
_ARRAYS = (list, tuple, set, frozenset)
# Entries of pydantic's core schemas by which a model is written differently from its attributes.
_SERIALIZED = ("serialization", "serialization_alias", "serialization_exclude", "computed_fields", "root_model")


def has_written_attributes(schema: Any, wanted: Any) -> bool:
    """Returns whether the attributes of objects of a type, also of those inside, are the values that are written.

    Args:
        schema: the writer's schema, self-contained.
        wanted: a msgspec Struct, a dataclass, a pydantic model, a TypedDict or a NamedTuple. Others are False, and so
            are types that cannot be examined.
    """
    named: dict[str, Named] = {}
    try:
        collect_named(schema, "", named)
        return _Comparison(named).fits(schema, "", wanted, several=False)
    except (KeyError, TypeError, ValueError, NameError, AttributeError, RecursionError):
        return False


class _Comparison:
    """Comparison of a schema with a type. Each pair of a record and a class is compared once."""

    def __init__(self, named: dict[str, Named]) -> None:
        self._named = named
        self._known: set[tuple[str, Any]] = set()

    def fits(self, node: Any, namespace: str, wanted: Any, *, several: bool) -> bool:
        """Returns whether values of a type are written as they are. `several`: the node is one of the branches of a
        union, which the codec distinguishes by the value.
        """
        if typing.get_origin(wanted) is Annotated:
            return self.fits(node, namespace, wanted.__origin__, several=several)
        if isinstance(wanted, typing.NewType):
            return self.fits(node, namespace, wanted.__supertype__, several=several)
        if _is_unchanged(wanted):
            return True
        if typing.get_origin(wanted) in (typing.Union, types.UnionType):
            choices = typing.get_args(wanted)
            return all(self.fits(node, namespace, choice, several=several) for choice in choices)
        if isinstance(node, list):
            branches = [branch for branch in node if branch != "null"]
            several = len(branches) > 1
            return any(self.fits(branch, namespace, wanted, several=several) for branch in branches)
        if isinstance(node, str) or (isinstance(node, dict) and node["type"] in ("record", "enum")):
            if isinstance(node, dict):
                found = find_named(node["name"], node.get("namespace", namespace), self._named)
            else:
                found = find_named(node, namespace, self._named)
            if found is None:
                return not several and node == "string" and _is_text_enum(wanted)
            full, (definition, inside) = found
            if definition["type"] == "enum":
                return _is_text_enum(wanted)
            # Where there is a choice, the codec takes a tuple for an array.
            is_array = several and is_named_tuple(wanted)
            return definition["type"] == "record" and not is_array and self._record(full, definition, inside, wanted)
        if node["type"] == "array":
            arguments = typing.get_args(wanted)
            origin = typing.get_origin(wanted)
            is_known = origin is list if several else origin in _ARRAYS
            is_uniform = origin is not tuple or (len(arguments) == 2 and arguments[1] is ...)
            return is_known and is_uniform and self.fits(node["items"], namespace, arguments[0], several=False)
        if node["type"] == "map":
            arguments = typing.get_args(wanted)
            is_known = typing.get_origin(wanted) is dict and arguments[0] is str
            return is_known and self.fits(node["values"], namespace, arguments[1], several=False)
        return self.fits(node["type"], namespace, wanted, several=several)

    def _record(self, full: str, definition: dict[str, Any], namespace: str, wanted: Any) -> bool:
        if (full, wanted) in self._known:
            return True
        self._known.add((full, wanted))
        hints = _attributes(wanted)
        fields = {field["name"]: field["type"] for field in definition["fields"]}
        # An attribute that is no field of the class, such as a method, must not be taken for a value.
        if (
            hints is not None
            and fields.keys() == hints.keys()
            and all(self.fits(fields[name], namespace, hint, several=False) for name, hint in hints.items())
        ):
            return True
        self._known.discard((full, wanted))
        return False


def _attributes(wanted: Any) -> dict[str, Any] | None:
    """Returns the annotations of attributes that are written under their names; None: they are not, or not known."""
    if not isinstance(wanted, type) or typing.get_origin(wanted) is not None:
        return None
    if is_named_tuple(wanted):
        return typing.get_type_hints(wanted, include_extras=True)
    if typing.is_typeddict(wanted):
        return {name: _unqualified(hint) for name, hint in typing.get_type_hints(wanted, include_extras=True).items()}
    if hasattr(wanted, "__pydantic_validator__"):
        model: Any = wanted
        if not hasattr(wanted, "model_fields") or not _is_written_as_it_is(model.__pydantic_core_schema__):
            return None
        if model.model_config.get("extra") == "allow":
            return None
        return {name: field.annotation for name, field in model.model_fields.items()}
    config = getattr(wanted, "__struct_config__", None)
    if config is not None:
        import msgspec

        found = msgspec.structs.fields(wanted)
        if config.tag is not None or config.array_like or any(one.name != one.encode_name for one in found):
            return None
        return {field.name: field.type for field in found}
    if dataclasses.is_dataclass(wanted):
        hints = typing.get_type_hints(wanted, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(wanted)}
    return None


def _is_written_as_it_is(core_schema: Any) -> bool:
    """Returns whether pydantic writes a model, and all within, by its attributes."""
    if isinstance(core_schema, dict):
        return not any(core_schema.get(key) for key in _SERIALIZED) and all(
            _is_written_as_it_is(inner) for inner in core_schema.values()
        )
    if isinstance(core_schema, (list, tuple)):
        return all(_is_written_as_it_is(inner) for inner in core_schema)
    return True


def _is_unchanged(wanted: Any) -> bool:
    if wanted is None or (isinstance(wanted, type) and wanted in _UNCHANGED):
        return True
    return typing.get_origin(wanted) is Literal and all(type(one) in _UNCHANGED for one in typing.get_args(wanted))


def _is_text_enum(wanted: Any) -> bool:
    is_enum = isinstance(wanted, type) and issubclass(wanted, enum.Enum)
    return is_enum and all(type(one.value) is str for one in wanted)


def _unqualified(hint: Any) -> Any:
    """Returns `X` for `NotRequired[X]` and `Required[X]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.NotRequired, typing.Required) else hint
