"""JSON values, read into types by the libraries that do this well: msgspec, else pydantic."""

import collections.abc
import contextlib
import dataclasses
import functools
import importlib.util
import json as stdlib
import types
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeAlias

from grete.errors import ConfigError
from grete.payloads.annotations import type_name, unwrap_optional

Decoder: TypeAlias = Callable[[bytes], Any]

# Types of JSON values that no other type has checked.
_JSON_TYPES = (dict, list, str, int, float, bool, type(None))
_UNDECODABLE = (bytearray, memoryview, complex, type, object)


def installed(library: str) -> bool:
    """Returns whether a library can be imported."""
    return importlib.util.find_spec(library) is not None


def json(value: bytes) -> Any:
    """Decodes any JSON to dicts, lists, strings, numbers, booleans and None: `payload=grete.payloads.json`, or
    "json".
    """
    return _any_json()(value)


@functools.cache
def _any_json() -> Decoder:
    return decoder_for(Any)


def raw(value: bytes) -> bytes:
    """Returns the value itself."""
    return value


def text(value: bytes) -> str:
    """Decodes UTF-8."""
    return value.decode("utf-8")


def is_type(payload: object) -> bool:
    """Returns whether a payload is a type to decode to, and not a function."""
    if isinstance(payload, type):
        return True
    return typing.get_origin(payload) is not None or payload is Any


def decoder_for(wanted: Any) -> Decoder:
    """Returns the decoder of a type. Raises ConfigError if there is none, or if a library is missing."""
    plain = unwrap_optional(wanted)
    if plain is bytes:
        return raw
    if plain is str:
        return _text(wanted)
    if plain in _UNDECODABLE:
        raise ConfigError(
            f"nothing is decoded to {type_name(plain)}; for the value as it is take bytes", setting="payload"
        )
    if hasattr(plain, "__pydantic_validator__"):
        return _pydantic(wanted)
    if isinstance(plain, type) and hasattr(plain, "DESCRIPTOR") and hasattr(plain, "FromString"):
        parse: Decoder = plain.FromString  # a class made by protoc
        return parse
    if installed("msgspec"):
        return _msgspec(wanted)
    if plain is Any or plain in (dict, list):
        return _stdlib(plain)
    if installed("pydantic"):
        return _pydantic(wanted)
    raise ConfigError(
        f'decoding {type_name(wanted)} needs msgspec (or pydantic): pip install "grete[msgspec]"', setting="payload"
    )


def _text(wanted: Any) -> Decoder:
    """Returns a decoder of UTF-8 that respects limits as in `Annotated[str, msgspec.Meta(max_length=10)]`."""
    if not any(typing.get_origin(one) is Annotated for one in (wanted, *typing.get_args(wanted))):
        return text
    if not installed("msgspec"):
        raise ConfigError(
            f'decoding {type_name(wanted)} needs msgspec: pip install "grete[msgspec]"', setting="payload"
        )
    import msgspec

    return lambda value: msgspec.convert(text(value), wanted)


def _msgspec(wanted: Any) -> Decoder:
    import msgspec

    try:
        unsupported = [one for one in _unsupported_types(msgspec.inspect.type_info(wanted), set()) if one is not object]
        foreign = next(iter(unsupported), None)
        # For msgspec, `object` is a class like any other; for Python, every value is one.
        decoder: Decoder = msgspec.json.Decoder(wanted, dec_hook=_unchanged).decode
    except TypeError as error:
        if installed("pydantic"):
            # Some types, unions of pydantic models for example, are not supported by msgspec.
            with contextlib.suppress(ConfigError):
                return _pydantic(wanted)
        raise ConfigError(f"{type_name(wanted)} cannot be decoded: {error}", setting="payload") from None
    if foreign is None:
        return decoder
    if hasattr(foreign, "__pydantic_validator__"):
        return _pydantic(wanted)
    inside = "" if foreign is wanted else f"{type_name(wanted)} has a {type_name(foreign)} in it, and "
    raise ConfigError(
        f"{inside}{type_name(foreign)} is not a type that can be read from JSON: a msgspec Struct, a pydantic model, a "
        "dataclass, a TypedDict or a NamedTuple is; or decode by hand: "
        f"payload=lambda value: {foreign.__name__}(value)",
        setting="payload",
    )


def _unchanged(wanted: Any, value: Any) -> Any:
    """Returns a value that `object` stands for. Raises NotImplementedError for other classes."""
    if wanted is object:
        return value
    raise NotImplementedError


def _unsupported_types(node: Any, seen: set[Any]) -> Iterator[Any]:
    """Yields the classes in a type that msgspec does not support. It would raise only at the first record."""
    import msgspec

    if isinstance(node, msgspec.inspect.CustomType):
        yield node.cls
    if not isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)) or id(node) in seen:
        return
    seen.add(id(node))
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for one in value if isinstance(value, tuple) else (value,):
            yield from _unsupported_types(one, seen)


def _pydantic(wanted: Any) -> Decoder:
    import pydantic

    if isinstance(wanted, type) and issubclass(wanted, pydantic.BaseModel):
        return wanted.model_validate_json
    own = hasattr(unwrap_optional(wanted), "__pydantic_validator__")
    try:
        adapter = pydantic.TypeAdapter(wanted)
    except pydantic.PydanticUserError as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{type_name(wanted)} cannot be decoded: {reason}", setting="payload") from None
    # A model defines its own strictness. For all other types "1" is no int, with pydantic as with msgspec.
    return adapter.validate_json if own else functools.partial(adapter.validate_json, strict=True)


def _stdlib(plain: Any) -> Decoder:
    def decode(value: bytes) -> Any:
        found = stdlib.loads(value.decode("utf-8"), parse_constant=_refuse_constant)
        if plain is not Any and not isinstance(found, plain):
            raise ValueError(f"expected {plain.__name__}, got {type(found).__name__}")
        return found

    return decode


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


# An annotation beside `payload=`


def output_type_of(payload: object) -> Any:
    """Returns the type that a payload decodes to, or `Any` if it is unknown."""
    if payload == "json" or payload is json:
        return _JSON_TYPES
    if is_type(payload):
        return payload
    output_type = getattr(payload, "output_type", None)
    if output_type is not None:
        return output_type
    try:
        return typing.get_type_hints(payload).get("return", Any)
    except Exception:  # no function, or names that only a type checker knows: the annotation is believed
        return Any


def check_match(payload: object, output_type: Any, expected_type: Any, source: str = "payload=") -> None:
    """Refuses an annotation that contradicts the payload's type. `source`: where the payload was said."""
    wanted = unwrap_optional(expected_type)
    if output_type is Any or wanted is Any:
        return
    if output_type == _JSON_TYPES:
        if _made_of_json(wanted):
            return
        setting = source.rpartition(" ")[2].removesuffix("=")
        taken = type_name(expected_type)
        raise ConfigError(
            f'{source}"json" gives dicts, lists, strings and numbers, and the function takes {taken}: leave {setting} '
            f"out, and {taken} is read from JSON",
            setting="payload",
        )
    given = unwrap_optional(output_type)
    if given == wanted or _is_kind_of(given, wanted):
        return
    named = type_name(payload) if is_type(payload) else _display_name(payload)
    raise ConfigError(
        f"{source}{named} gives {type_name(output_type)}, and the function takes {type_name(expected_type)}: name the "
        "type in one place",
        setting="payload",
    )


def _display_name(payload: object) -> str:
    return getattr(payload, "__qualname__", None) or type(payload).__qualname__


def _made_of_json(wanted: Any) -> bool:
    origin = typing.get_origin(wanted) or wanted
    if typing.is_typeddict(origin):
        return True
    if not isinstance(origin, type) or dataclasses.is_dataclass(origin):
        return not isinstance(origin, type)
    return origin in (*_JSON_TYPES, collections.abc.Mapping, collections.abc.Sequence)


def _is_kind_of(given: Any, wanted: Any) -> bool:
    if typing.get_origin(wanted) in (typing.Union, types.UnionType) and any(
        given == one or _is_kind_of(given, one) for one in map(unwrap_optional, typing.get_args(wanted))
    ):
        return True
    left, right = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if typing.is_typeddict(right):
        return left is dict
    if not isinstance(left, type) or not isinstance(right, type):
        return not (isinstance(left, type) or isinstance(right, type))
    inner, outer = typing.get_args(given), typing.get_args(wanted)
    return issubclass(left, right) and (not inner or not outer or inner == outer)
