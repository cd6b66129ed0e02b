"""Conversion between a user's types and the dicts, lists and numbers that formats read and write."""

import datetime
import decimal
import enum
import importlib.util
import types
import typing
import uuid
from collections.abc import Callable
from typing import Any

from grete._process import callsite
from grete.errors import ConfigError
from grete.payloads.annotations import type_name, unwrap_optional

# Objects that Avro's logical types have, and that stay as they are.
_KEPT = (
    bytes,
    bytearray,
    datetime.datetime,
    datetime.date,
    datetime.time,
    datetime.timedelta,
    decimal.Decimal,
    uuid.UUID,
)


def require_library(library: str, extra: str, what: str) -> None:
    """Refuses a format whose library is not installed, with the location of the declaration."""
    if importlib.util.find_spec(library) is None:
        raise ConfigError(
            f'payloads.{what} needs {library}: pip install "grete[{extra}]"',
            setting="payload",
            location=callsite.caller_location(),
        )


def converter(wanted: Any, what: str) -> Callable[[Any], Any] | None:
    """Returns a function that converts plain dicts and lists to `type=`; None: no conversion."""
    if wanted is None or wanted is Any:
        return None
    if is_pydantic(wanted):
        import pydantic

        return pydantic.TypeAdapter(wanted).validate_python
    require_library("msgspec", "msgspec", f"{what}(type=...)")
    import msgspec

    return lambda found: msgspec.convert(found, wanted)


def plain_function(wanted: Any, what: str) -> Callable[[Any], Any]:
    """Returns a function that converts an object of `type=` to dicts and lists. Dates, decimals, UUIDs and bytes stay
    as they are, and the members of an Enum become their values.
    """
    if is_pydantic(wanted):
        if importlib.util.find_spec("msgspec") is None:
            return lambda value: _without_enums(_dump(value))
        import msgspec

        return lambda value: msgspec.to_builtins(_dump(value), builtin_types=_KEPT)
    require_library("msgspec", "msgspec", f"{what}(type=...)")
    import msgspec

    return lambda value: msgspec.to_builtins(value, builtin_types=_KEPT)


def is_pydantic(wanted: Any) -> bool:
    """Returns whether a type is a pydantic model or dataclass."""
    return hasattr(wanted, "__pydantic_validator__")


def record_types(wanted: Any) -> tuple[Any, ...]:
    """Returns the types of `Order | Invoice`, or the type itself; without `None` and `Annotated`."""
    plain = unwrap_optional(wanted)
    if typing.get_origin(plain) in (typing.Union, types.UnionType):
        return tuple(unwrap_optional(one) for one in typing.get_args(plain))
    return (plain,)


def type_of(value: object, known: tuple[Any, ...], what: str) -> Any:
    """Returns the one of `known` that an object belongs to. A dict belongs to a TypedDict, or to the only type.

    Raises TypeError.
    """
    given = type(value)
    if given in known:
        return given
    for one in known:
        origin = typing.get_origin(one) or one
        if typing.is_typeddict(origin):
            if given is dict:
                return one
        elif isinstance(origin, type) and isinstance(value, origin):
            return one
    if given is dict and len(known) == 1:
        return dict
    names = " or ".join(type_name(one) for one in known)
    raise TypeError(f"{what} writes {names}, not {given.__qualname__}")


def _dump(value: Any) -> Any:
    """Returns the dict of a pydantic model or dataclass."""
    if hasattr(value, "model_dump"):
        return value.model_dump(by_alias=True)
    return type(value).__pydantic_serializer__.to_python(value, by_alias=True)


def _without_enums(value: Any) -> Any:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {_without_enums(key): _without_enums(item) for key, item in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [_without_enums(item) for item in value]
    return value
