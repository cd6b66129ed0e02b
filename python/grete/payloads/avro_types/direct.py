"""Plan for making objects of classes while Avro data is decoded, without a dict and a conversion in between.

A plan is possible if the annotations are what the schema's types decode to, so that nothing is left to check or to
convert: int for long, datetime for a timestamp, a dataclass or msgspec Struct for a record. Otherwise the plan is None,
and dicts are converted.
"""

import dataclasses
import datetime
import decimal
import enum
import inspect
import json
import types
import typing
import uuid
from collections.abc import Sequence
from typing import Any, Literal

from grete.payloads.avro_schemas import Named, collect_named, name_in
from grete.payloads.avro_types.shapes import is_named_tuple

_PRIMITIVES = {
    "null": type(None),
    "boolean": bool,
    "int": int,
    "long": int,
    "float": float,
    "double": float,
    "bytes": bytes,
    "string": str,
}
_LOGICAL = {
    ("int", "date"): datetime.date,
    ("int", "time-millis"): datetime.time,
    ("long", "time-micros"): datetime.time,
    ("long", "timestamp-millis"): datetime.datetime,
    ("long", "timestamp-micros"): datetime.datetime,
    ("long", "local-timestamp-millis"): datetime.datetime,
    ("long", "local-timestamp-micros"): datetime.datetime,
    ("bytes", "decimal"): decimal.Decimal,
    ("string", "uuid"): uuid.UUID,
}


class _NotDirectError(Exception):
    """The types need a conversion."""


def plan(schema: str, references: Sequence[str], wanted: Any) -> dict[str, Any] | None:
    """Returns `types` of `AvroCodec` for data that becomes `wanted`; None: the data needs a conversion."""
    planner = _Planner()
    try:
        for text in references:
            collect_named(json.loads(text), "", planner.named)
        root = json.loads(schema)
        collect_named(root, "", planner.named)
        planner.match(root, "", wanted)
    except (_NotDirectError, ValueError, TypeError, NameError, RecursionError):
        return None
    return {name: made for name, made in planner.made.items() if made is not dict}


class _Planner:
    def __init__(self) -> None:
        self.named: dict[str, Named] = {}
        self.made: dict[str, Any] = {}
        self.classes: dict[str, Any] = {}

    def match(self, node: Any, namespace: str, wanted: Any) -> None:
        """Raises _NotDirectError unless a type of the schema decodes to `wanted`."""
        if isinstance(node, list):
            return self._union(node, namespace, wanted)
        if isinstance(node, str):
            if node not in _PRIMITIVES:
                return self._named(name_in(node, namespace), wanted)
            return _same(_PRIMITIVES[node], wanted)
        kind = node["type"]
        if isinstance(kind, (dict, list)):
            return self.match(kind, namespace, wanted)
        if kind in ("record", "error", "enum", "fixed"):
            return self._named(name_in(node["name"], node.get("namespace", namespace)), wanted)
        if kind in ("array", "map"):
            return self._container(node, namespace, wanted)
        if kind not in _PRIMITIVES:
            return self._named(name_in(kind, namespace), wanted)
        return _same(_LOGICAL.get((kind, node.get("logicalType")), _PRIMITIVES[kind]), wanted)

    def _union(self, branches: list[Any], namespace: str, wanted: Any) -> None:
        choices = typing.get_args(wanted) if _is_union(wanted) else (wanted,)
        for branch in branches:
            for choice in choices:
                made, classes = dict(self.made), dict(self.classes)
                try:
                    self.match(branch, namespace, choice)
                    break
                except _NotDirectError:
                    self.made, self.classes = made, classes
            else:
                raise _NotDirectError

    def _container(self, node: dict[str, Any], namespace: str, wanted: Any) -> None:
        origin, arguments = typing.get_origin(wanted) or wanted, typing.get_args(wanted)
        if wanted is Any or _is_union(wanted):
            return self._union([node], namespace, wanted) if wanted is not Any else self._plain(node, namespace)
        expected, inner = (list, node.get("items")) if node["type"] == "array" else (dict, node.get("values"))
        if origin is not expected or (expected is dict and arguments and arguments[0] is not str):
            raise _NotDirectError
        return self.match(inner, namespace, arguments[-1] if arguments else Any)

    def _plain(self, node: dict[str, Any], namespace: str) -> None:
        self.match(node.get("items", node.get("values")), namespace, Any)

    def _named(self, full: str, wanted: Any) -> None:
        if full not in self.named and "." in full:
            full = full.rpartition(".")[2]  # a name without a namespace
        if full not in self.named:
            raise _NotDirectError
        if _is_union(wanted):
            return self._union([full], "", wanted)
        if full in self.classes:
            if self.classes[full] is not wanted:
                raise _NotDirectError  # one type of the schema, two classes
            return None
        self.classes[full] = wanted
        node, namespace = self.named[full]
        if node["type"] == "enum":
            return self._enum(full, node["symbols"], wanted)
        if node["type"] == "fixed":
            logical = {"decimal": decimal.Decimal, "uuid": uuid.UUID}.get(node.get("logicalType", ""), bytes)
            return _same(logical, wanted)
        return self._record(full, node, namespace, wanted)

    def _enum(self, full: str, symbols: list[str], wanted: Any) -> None:
        if wanted is str or wanted is Any:
            return
        if typing.get_origin(wanted) is Literal:
            if not set(symbols) <= set(typing.get_args(wanted)):
                raise _NotDirectError
        elif isinstance(wanted, type) and issubclass(wanted, enum.Enum):
            self.made[full] = {symbol: wanted(symbol) for symbol in symbols}
        else:
            raise _NotDirectError

    def _record(self, full: str, node: dict[str, Any], namespace: str, wanted: Any) -> None:
        fields = {field["name"]: field["type"] for field in node["fields"]}
        if wanted is Any or wanted is dict or typing.get_origin(wanted) is dict:
            if typing.get_args(wanted) not in ((), (str, Any)):
                raise _NotDirectError
            for kind in fields.values():
                self.match(kind, namespace, Any)
            return
        hints = _fields_of(wanted)
        parameters = inspect.signature(wanted).parameters
        if set(parameters) != set(hints):
            raise _NotDirectError
        positional: list[str] = []
        keywords: list[str] = []
        for name, parameter in parameters.items():
            if name not in fields:
                if parameter.default is parameter.empty:
                    raise _NotDirectError  # the conversion has the better error
                continue
            is_next = len(positional) == list(parameters).index(name)
            if is_next and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                positional.append(name)
            else:
                keywords.append(name)
            self.match(fields[name], namespace, hints[name])
        for name in fields.keys() - hints.keys():
            self.match(fields[name], namespace, Any)
        self.made[full] = (wanted, positional, keywords)


def _fields_of(wanted: Any) -> dict[str, Any]:
    """Returns the annotations of a class that is made by calling it with its fields."""
    if not isinstance(wanted, type) or typing.get_origin(wanted) is not None:
        raise _NotDirectError
    if dataclasses.is_dataclass(wanted) and not hasattr(wanted, "__pydantic_validator__"):
        hints = typing.get_type_hints(wanted, include_extras=True)
        return {field.name: hints[field.name] for field in dataclasses.fields(wanted) if field.init}
    if is_named_tuple(wanted):
        return typing.get_type_hints(wanted, include_extras=True)
    config = getattr(wanted, "__struct_config__", None)
    if config is None or config.tag is not None or config.forbid_unknown_fields:
        raise _NotDirectError
    import msgspec

    found = msgspec.structs.fields(wanted)
    if any(field.name != field.encode_name for field in found):
        raise _NotDirectError
    return {field.name: field.type for field in found}


def _same(decoded: type, wanted: Any) -> None:
    if wanted is Any or wanted is decoded:
        return
    if _is_union(wanted) and (decoded in typing.get_args(wanted) or Any in typing.get_args(wanted)):
        return
    raise _NotDirectError


def _is_union(annotation: Any) -> bool:
    return typing.get_origin(annotation) in (typing.Union, types.UnionType)
