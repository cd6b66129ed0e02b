"""JSON that is written: by msgspec or pydantic, and without a number that JSON does not have.

Both libraries write NaN and Infinity as `null`, so that a reader gets another value than was written. A float that the
written JSON has as `null` is therefore an error. pydantic's `ser_json_inf_nan="constants"` or `"strings"` writes them
in a form of their own, and is respected.
"""

import dataclasses
import json as stdlib
import math
import typing
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from grete.errors import ConfigError
from grete.payloads.annotations import type_name
from grete.payloads.json_types import installed

Writer: TypeAlias = Callable[[Any], bytes]

_FINITE = frozenset({str, int, bool, type(None)})
_JSON_CLASSES = (dict, list, tuple, str, int, float, bool, Mapping, Sequence)


class NonFiniteError(ValueError):
    """A float is NaN or infinite, which JSON cannot say. `field` is its path, like "lines[3].price" ("": the value)."""

    def __init__(self, field: str, value: float) -> None:
        where = field or "the value"
        super().__init__(
            f"{where} is {value!r}, which JSON does not have, and a reader would get null: write None, or text"
        )
        self.field = field


def json_writer(kind: type) -> Writer:
    """Returns the writer of objects of a class. Raises ConfigError if they have no JSON form."""
    _check_json(kind)
    if not installed("msgspec"):
        return _stdlib_bytes
    import msgspec

    encode = msgspec.json.Encoder().encode
    return _finite(encode, msgspec.to_builtins) if _may_hold_floats(kind) else encode


def pydantic_writer(kind: Any, **options: Any) -> Writer:
    """Returns the writer of a pydantic model, or of a type that pydantic can write. `options`: of `dump_json`."""
    import pydantic

    if not options and hasattr(kind, "model_dump_json"):
        return _finite(_model_bytes, lambda value: value.model_dump(mode="json"))
    adapter = pydantic.TypeAdapter(kind)
    return _finite(
        lambda value: adapter.dump_json(value, **options),
        lambda value: adapter.dump_python(value, mode="json", **options),
    )


def json_bytes(value: Any) -> bytes:
    """Writes any JSON value."""
    global _any_writer
    if _any_writer is None:
        _any_writer = json_writer(dict)
    return _any_writer(value)


_any_writer: Writer | None = None


def _model_bytes(value: Any) -> bytes:
    text: str = value.model_dump_json()
    return text.encode()


def _check_json(kind: type) -> None:
    """Refuses a class without a JSON form. msgspec would raise only at the first record."""
    if issubclass(kind, _JSON_CLASSES) or dataclasses.is_dataclass(kind):
        return
    if not installed("msgspec"):
        if typing.is_typeddict(kind):
            return
        raise ConfigError(f'encoding {type_name(kind)} needs msgspec: pip install "grete[msgspec]"')
    import msgspec

    if isinstance(msgspec.inspect.type_info(kind), msgspec.inspect.CustomType):
        raise ConfigError(
            f"{type_name(kind)} has no JSON form: a msgspec Struct, a pydantic model, a dataclass, a TypedDict and a "
            "NamedTuple have one; or give a function that returns bytes"
        )


def _may_hold_floats(kind: type) -> bool:
    """Returns whether an object of a class may have a float in it. Attributes may have other types than they declare,
    so only what msgspec has checked while reading, or a type checker, makes False right.
    """
    import msgspec

    if not (hasattr(kind, "__struct_config__") or kind in (str, int, bool)):
        return True  # dicts and lists; and nothing is said about the subclasses of a class
    inspect = msgspec.inspect
    seen: set[int] = set()

    def holds(node: Any) -> bool:
        if isinstance(node, (inspect.FloatType, inspect.AnyType, inspect.CustomType)):
            return True
        if isinstance(node, tuple):
            return any(map(holds, node))
        if not isinstance(node, (inspect.Type, inspect.Field)) or id(node) in seen:
            return False
        seen.add(id(node))
        return any(holds(getattr(node, name)) for name in node.__struct_fields__ if name != "default")

    try:
        return holds(inspect.type_info(kind))
    except (TypeError, NameError):
        return True


def _finite(write: Writer, to_builtins: Callable[[Any], Any]) -> Writer:
    """Returns a writer that raises NonFiniteError. `to_builtins`: makes the dicts and lists of what is written."""

    def write_finite(value: Any) -> bytes:
        data = write(value)
        if b"null" in data and _has_non_finite(given := to_builtins(value)):
            _refuse_lost(given, stdlib.loads(data), "")
        return data

    return write_finite


def _has_non_finite(given: Any) -> bool:
    kind = given.__class__
    if kind is float:
        return not math.isfinite(given)
    if kind is dict:
        given = given.values()
    elif kind is not list and kind is not tuple:
        return isinstance(given, float) and not math.isfinite(given)
    # Most values are flat, so that only what holds others, or is a float, costs a call.
    return any(one.__class__ not in _FINITE and _has_non_finite(one) for one in given)


def _refuse_lost(given: Any, written: Any, path: str) -> None:
    """Raises NonFiniteError for a float that was written as null. `given` and `written` have the same shape."""
    if isinstance(given, float):
        if written is None and not math.isfinite(given):
            raise NonFiniteError(path, given)
    elif isinstance(given, dict) and isinstance(written, dict):
        for (name, inside), found in zip(given.items(), written.values(), strict=False):
            _refuse_lost(inside, found, f"{path}.{name}" if path else str(name))
    elif isinstance(given, (list, tuple)) and isinstance(written, list):
        for number, (inside, found) in enumerate(zip(given, written, strict=False)):
            _refuse_lost(inside, found, f"{path}[{number}]")


def _stdlib_bytes(value: Any) -> bytes:
    plain = dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value
    try:
        return stdlib.dumps(plain, separators=(",", ":"), allow_nan=False).encode()
    except ValueError:
        # The error of json does not name the field.
        _refuse_lost(plain, stdlib.loads(stdlib.dumps(plain), parse_constant=lambda _name: None), "")
        raise
