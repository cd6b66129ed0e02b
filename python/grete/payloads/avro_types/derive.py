"""Avro schemas derived from Python types: dataclasses, msgspec Structs, pydantic models, TypedDicts, NamedTuples.

| Python | Avro |
|---|---|
| `bool`, `int`, `float`, `str`, `bytes`, `None` | boolean, long, double, string, bytes, null |
| `datetime`, `date`, `time` | long timestamp-micros, int date, long time-micros |
| `UUID` | string uuid |
| `Decimal` | bytes decimal, with `Annotated[Decimal, AvroType(...)]` or pydantic's `max_digits` and `decimal_places` |
| `Enum` of names, `Literal` of names | enum; of other strings: string |
| `list[X]`, `set[X]`, `tuple[X, ...]`, `dict[str, X]` | array, map |
| `X | None`, `X | Y` | union; the branch of the default first |

A default that JSON can express becomes the default of the field.
"""

import collections.abc
import dataclasses
import datetime
import decimal
import enum
import re
import types
import typing
import uuid
from collections.abc import Iterator
from typing import Annotated, Any

from grete.errors import ConfigError
from grete.payloads.annotations import type_name

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_NO_DEFAULT = object()
_SIMPLE: dict[Any, Any] = {
    bool: "boolean",
    int: "long",
    float: "double",
    str: "string",
    bytes: "bytes",
    type(None): "null",
    None: "null",
    datetime.datetime: {"type": "long", "logicalType": "timestamp-micros"},
    datetime.date: {"type": "int", "logicalType": "date"},
    datetime.time: {"type": "long", "logicalType": "time-micros"},
    uuid.UUID: {"type": "string", "logicalType": "uuid"},
}
_ARRAYS = (list, set, frozenset, collections.abc.Sequence, collections.abc.Set, collections.abc.Iterable)
_MAPS = (dict, collections.abc.Mapping, collections.abc.MutableMapping)


@dataclasses.dataclass(frozen=True)
class AvroType:
    """Avro type of a field, in place of the derived one: `Annotated[int, AvroType("int")]`."""

    schema: Any


def avro_schema(wanted: Any, namespace: str = "") -> Any:
    """Returns the schema of a type. Raises ConfigError for a type that Avro cannot express."""
    return _Derivation(namespace).of(wanted, type_name(wanted))


@dataclasses.dataclass(frozen=True)
class Field:
    """Field of a type: its written name, annotation, default, and what `Annotated` says."""

    name: str
    annotation: Any
    default: Any = _NO_DEFAULT
    metadata: tuple[Any, ...] = ()


class _Derivation:
    """Schema of one type. Each class is defined at its first use, and named after that."""

    def __init__(self, namespace: str) -> None:
        self._namespace = namespace
        self._named: dict[str, Any] = {}

    def of(self, wanted: Any, where: str, metadata: tuple[Any, ...] = ()) -> Any:
        if typing.get_origin(wanted) is Annotated:
            return self.of(wanted.__origin__, where, (*metadata, *wanted.__metadata__))
        for one in metadata:
            if isinstance(one, AvroType):
                return one.schema
        if typing.get_origin(wanted) in (typing.Union, types.UnionType):
            return _union([self.of(one, where, metadata) for one in typing.get_args(wanted)])
        if wanted is decimal.Decimal:
            return _decimal(metadata, where)
        if isinstance(wanted, typing.NewType):
            return self.of(wanted.__supertype__, where, metadata)
        simple = _SIMPLE.get(wanted) if isinstance(wanted, type) or wanted is None else None
        return self._compound(wanted, where) if simple is None else simple

    def _compound(self, wanted: Any, where: str) -> Any:
        origin = typing.get_origin(wanted) or wanted
        if origin is typing.Literal:
            return self._enum("", typing.get_args(wanted), where)
        if origin in _ARRAYS or origin is tuple:
            return {"type": "array", "items": self.of(_item_of(wanted, where), f"{where}[]")}
        if origin in _MAPS:
            arguments = typing.get_args(wanted)
            if len(arguments) != 2 or arguments[0] is not str:
                raise _refusal(where, wanted, "a map of Avro has strings as keys: write dict[str, X]")
            return {"type": "map", "values": self.of(arguments[1], f"{where}{{}}")}
        if isinstance(wanted, type) and issubclass(wanted, enum.Enum):
            return self._enum(wanted.__name__, [one.value for one in wanted], where, wanted)
        return self._record(wanted, where)

    def _record(self, wanted: Any, where: str) -> Any:
        fields = fields_of(wanted)
        if fields is None:
            raise _refusal(
                where, wanted, "it is no dataclass, Struct, pydantic model, TypedDict or NamedTuple: give the schema"
            )
        name = wanted.__name__
        if self._define(name, wanted, where):
            return self._reference(name)
        described = []
        for field in fields:
            inside = f"{where}.{field.name}"
            if not _NAME.fullmatch(field.name):
                raise _refusal(inside, wanted, f'"{field.name}" is no name for Avro (letters, digits, _)')
            schema = self.of(field.annotation, inside, field.metadata)
            described.append({"name": field.name, **_with_default(schema, field.default)})
        record = {"type": "record", "name": name, "fields": described}
        return (
            {"type": "record", "name": name, "namespace": self._namespace, "fields": described}
            if (self._namespace)
            else record
        )

    def _enum(self, name: str, values: typing.Sequence[Any], where: str, wanted: Any = None) -> Any:
        if all(isinstance(value, str) for value in values):
            if not name or not all(_NAME.fullmatch(value) for value in values):
                return "string"
            if self._define(name, wanted, where):
                return self._reference(name)
            return {"type": "enum", "name": name, **self._in_namespace(), "symbols": list(values)}
        if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
            return "long"
        raise _refusal(where, wanted or values, "the values of an enum are strings, or are numbers")

    def _define(self, name: str, wanted: Any, where: str) -> bool:
        """Returns whether the name is defined already. Raises ConfigError if another type has it."""
        if self._named.setdefault(name, wanted) is not wanted:
            raise _refusal(
                where, wanted, f'another type is called "{name}", too: rename one of them, or give the schema'
            )
        known = f"{name} defined"
        found = known in self._named
        self._named[known] = True
        return found

    def _in_namespace(self) -> dict[str, str]:
        return {"namespace": self._namespace} if self._namespace else {}

    def _reference(self, name: str) -> str:
        return f"{self._namespace}.{name}" if self._namespace else name


def _union(branches: list[Any]) -> Any:
    flat: list[Any] = []
    for branch in branches:
        for one in branch if isinstance(branch, list) else [branch]:
            if one not in flat:
                flat.append(one)
    flat.sort(key=lambda one: one != "null")  # null first, as people write it; the others keep their order
    return flat if len(flat) > 1 else flat[0]


def _with_default(schema: Any, default: Any) -> dict[str, Any]:
    """Returns type and default of a field. The default of a union belongs to its first branch."""
    value = _as_json(default)
    if value is _NO_DEFAULT:
        return {"type": schema}
    if isinstance(schema, list):
        fitting = [one for one in schema if _fits(value, one)]
        if not fitting:
            return {"type": schema}
        schema = [fitting[0], *(one for one in schema if one is not fitting[0])]
    elif not _fits(value, schema):
        return {"type": schema}
    return {"type": schema, "default": value}


def _fits(value: Any, schema: Any) -> bool:
    """Returns whether a JSON value can be the default of a schema."""
    if isinstance(schema, dict) and ("logicalType" in schema or schema["type"] == "record"):
        return False
    kind = schema if isinstance(schema, str) else schema["type"]
    if kind == "enum":
        return value in schema["symbols"]
    if isinstance(value, bool):
        return bool(kind == "boolean")
    expected: dict[str, tuple[Any, ...]] = {
        "null": (type(None),),
        "long": (int,),
        "int": (int,),
        "double": (int, float),
        "float": (int, float),
        "string": (str,),
        "array": (list,),
        "map": (dict,),
    }
    return isinstance(value, expected.get(kind, ()))


def _as_json(default: Any) -> Any:
    if isinstance(default, enum.Enum):
        return _as_json(default.value)
    if default is None or isinstance(default, (bool, int, float, str)):
        return default
    if isinstance(default, (list, dict, set, tuple)) and not default:
        return {} if isinstance(default, dict) else []
    return _NO_DEFAULT


def _item_of(wanted: Any, where: str) -> Any:
    arguments = typing.get_args(wanted)
    if typing.get_origin(wanted) is tuple and (len(arguments) != 2 or arguments[1] is not ...):
        raise _refusal(where, wanted, "an array of Avro has one type of items: write tuple[X, ...], or give the schema")
    if not arguments:
        raise _refusal(where, wanted, "the type of the items is missing: write list[X]")
    return arguments[0]


def _decimal(metadata: tuple[Any, ...], where: str) -> Any:
    flat = [part for one in metadata for part in (one, *getattr(one, "metadata", ()))]
    digits = next((one.max_digits for one in flat if getattr(one, "max_digits", None)), None)
    places = next((one.decimal_places for one in flat if getattr(one, "decimal_places", None) is not None), 0)
    if digits is None:
        raise _refusal(
            where,
            decimal.Decimal,
            'Avro needs its digits: Annotated[Decimal, AvroType({"type": "bytes", "logicalType": "decimal", '
            '"precision": 12, "scale": 2})]',
        )
    return {"type": "bytes", "logicalType": "decimal", "precision": digits, "scale": places}


def _refusal(where: str, wanted: Any, reason: str) -> ConfigError:
    return ConfigError(f"{where}: {type_name(wanted)} has no Avro schema: {reason}", setting="type")


# Fields of the kinds of types


def fields_of(wanted: Any) -> list[Field] | None:
    """Returns the fields of a type with fields; None: it is something else."""
    if not isinstance(wanted, type):
        return None
    if hasattr(wanted, "model_fields") and hasattr(wanted, "__pydantic_validator__"):
        return list(_pydantic_fields(wanted))
    hints = typing.get_type_hints(wanted, include_extras=True)
    if hasattr(wanted, "__struct_config__"):
        return list(_struct_fields(wanted, hints))
    if dataclasses.is_dataclass(wanted):
        return [_dataclass_field(one, hints[one.name]) for one in dataclasses.fields(wanted)]
    if typing.is_typeddict(wanted):
        optional: frozenset[str] = getattr(wanted, "__optional_keys__", frozenset())
        return [
            Field(name, _unqualified(hint) | None, None) if name in optional else Field(name, _unqualified(hint))
            for name, hint in hints.items()
        ]
    if issubclass(wanted, tuple) and hasattr(wanted, "_field_defaults"):
        defaults = wanted._field_defaults
        return [Field(name, hint, defaults.get(name, _NO_DEFAULT)) for name, hint in hints.items()]
    return None


def _unqualified(hint: Any) -> Any:
    """Returns `X` for `NotRequired[X]` and `Required[X]`."""
    return typing.get_args(hint)[0] if typing.get_origin(hint) in (typing.NotRequired, typing.Required) else hint


def _struct_fields(wanted: Any, hints: dict[str, Any]) -> Iterator[Field]:
    import msgspec

    config = wanted.__struct_config__
    if config.tag is not None:
        yield Field(config.tag_field, str if isinstance(config.tag, str) else int, config.tag)
    for field in msgspec.structs.fields(wanted):
        default = field.default
        if default is msgspec.NODEFAULT:
            default = _made(field.default_factory) if field.default_factory is not msgspec.NODEFAULT else _NO_DEFAULT
        yield Field(field.encode_name, hints[field.name], default)


def _dataclass_field(field: "dataclasses.Field[Any]", hint: Any) -> Field:
    if field.default is not dataclasses.MISSING:
        return Field(field.name, hint, field.default)
    if field.default_factory is not dataclasses.MISSING:
        return Field(field.name, hint, _made(field.default_factory))
    return Field(field.name, hint)


def _pydantic_fields(wanted: Any) -> Iterator[Field]:
    for name, field in wanted.model_fields.items():
        default: Any = _NO_DEFAULT
        if not field.is_required():
            default = _made(field.default_factory) if field.default_factory is not None else field.default
        alias = field.serialization_alias or field.alias or name
        yield Field(alias, field.annotation, default, tuple(field.metadata))


def _made(factory: Any) -> Any:
    """Returns an empty list or dict of a factory; other factories may have effects, and are no defaults for others."""
    return factory() if factory in (list, dict, set, tuple) else _NO_DEFAULT
