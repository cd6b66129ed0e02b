"""Values that are JSON, read into types by the libraries that do this well: msgspec, else pydantic."""

import collections.abc
import contextlib
import dataclasses
import functools
import importlib.util
import json as stdlib
import typing
from collections.abc import Callable, Iterator
from typing import Annotated, Any, TypeAlias

from grete.errors import ConfigError
from grete.handlers import bare, shown

Decoder: TypeAlias = Callable[[bytes], Any]

# What JSON is made of, without a type that would check it.
_JSON_TYPES = (dict, list, str, int, float, bool, type(None))
_UNDECODABLE = (bytearray, memoryview, complex, type, object)


def installed(library: str) -> bool:
    """Whether it could be imported."""
    return importlib.util.find_spec(library) is not None


def json(value: bytes) -> Any:
    """Any JSON, as dicts, lists, strings, numbers, booleans and None: `payload=grete.payloads.json`, or "json"."""
    return _any_json()(value)


@functools.cache
def _any_json() -> Decoder:
    return for_type(Any)


def raw(value: bytes) -> bytes:
    """The value itself."""
    return value


def text(value: bytes) -> str:
    """UTF-8."""
    return value.decode("utf-8")


def is_type(payload: object) -> bool:
    """Whether values are read into it, instead of being given to it."""
    if isinstance(payload, type):
        return True
    return typing.get_origin(payload) is not None or payload is Any


def for_type(wanted: Any) -> Decoder:
    """The decoder of a type. ConfigError if there is none, or if a library is missing."""
    plain = bare(wanted)
    if plain is bytes:
        return raw
    if plain is str:
        return _text(wanted)
    if plain in _UNDECODABLE:
        raise ConfigError(f"nothing is decoded to {shown(plain)}; for the value as it is take bytes", setting="payload")
    if hasattr(plain, "__pydantic_validator__"):
        return _pydantic(wanted)
    if isinstance(plain, type) and hasattr(plain, "DESCRIPTOR") and hasattr(plain, "FromString"):
        parse: Decoder = plain.FromString  # a class that protoc made
        return parse
    if installed("msgspec"):
        return _msgspec(wanted)
    if plain is Any or plain in (dict, list):
        return _stdlib(plain)
    if installed("pydantic"):
        return _pydantic(wanted)
    raise ConfigError(
        f'decoding {shown(wanted)} needs msgspec (or pydantic): pip install "grete[msgspec]"', setting="payload"
    )


def _text(wanted: Any) -> Decoder:
    """UTF-8; limits as in `Annotated[str, msgspec.Meta(max_length=10)]` hold."""
    if not any(typing.get_origin(one) is Annotated for one in (wanted, *typing.get_args(wanted))):
        return text
    if not installed("msgspec"):
        raise ConfigError(f'decoding {shown(wanted)} needs msgspec: pip install "grete[msgspec]"', setting="payload")
    import msgspec

    return lambda value: msgspec.convert(text(value), wanted)


def _msgspec(wanted: Any) -> Decoder:
    import msgspec

    try:
        foreign = next(_foreign(msgspec.inspect.type_info(wanted), set()), None)
        decoder: Decoder = msgspec.json.Decoder(wanted).decode
    except TypeError as error:
        if installed("pydantic"):
            # Unions of pydantic models, for example, are beyond msgspec.
            with contextlib.suppress(ConfigError):
                return _pydantic(wanted)
        raise ConfigError(f"{shown(wanted)} cannot be decoded: {error}", setting="payload") from None
    if foreign is None:
        return decoder
    if hasattr(foreign, "__pydantic_validator__"):
        return _pydantic(wanted)
    inside = "" if foreign is wanted else f"{shown(wanted)} has a {shown(foreign)} in it, and "
    raise ConfigError(
        f"{inside}{shown(foreign)} is not a type that can be read from JSON: a msgspec Struct, a pydantic model, a "
        "dataclass, a TypedDict or a NamedTuple is; or decode by hand: "
        f"payload=lambda value: {foreign.__name__}(value)",
        setting="payload",
    )


def _foreign(node: Any, seen: set[Any]) -> Iterator[Any]:
    """The classes in a type that msgspec knows nothing of: it would find out at the first record."""
    import msgspec

    if isinstance(node, msgspec.inspect.CustomType):
        yield node.cls
    if not isinstance(node, (msgspec.inspect.Type, msgspec.inspect.Field)) or id(node) in seen:
        return
    seen.add(id(node))
    for name in node.__struct_fields__:
        value = getattr(node, name)
        for one in value if isinstance(value, tuple) else (value,):
            yield from _foreign(one, seen)


def _pydantic(wanted: Any) -> Decoder:
    import pydantic

    if isinstance(wanted, type) and issubclass(wanted, pydantic.BaseModel):
        return wanted.model_validate_json
    own = hasattr(bare(wanted), "__pydantic_validator__")
    try:
        adapter = pydantic.TypeAdapter(wanted)
    except pydantic.PydanticUserError as error:
        reason = str(error).splitlines()[0]
        raise ConfigError(f"{shown(wanted)} cannot be decoded: {reason}", setting="payload") from None
    # A model says itself how strict it is. For all other types "1" is no int, with pydantic as with msgspec.
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


def result_of(payload: object) -> Any:
    """What a payload decodes to, as far as it says; `Any` otherwise."""
    if payload == "json" or payload is json:
        return _JSON_TYPES
    if is_type(payload):
        return payload
    gives = getattr(payload, "gives", None)
    if gives is not None:
        return gives
    try:
        return typing.get_type_hints(payload).get("return", Any)
    except Exception:  # no function, or names that only a type checker knows: it will be as annotated
        return Any


def check_match(payload: object, gives: Any, wants: Any) -> None:
    """Refuses an annotation that cannot be what the payload gives."""
    wanted = bare(wants)
    if gives is Any or wanted is Any:
        return
    if gives == _JSON_TYPES:
        if _made_of_json(wanted):
            return
        raise ConfigError(
            'payload="json" gives dicts, lists, strings and numbers, and the function takes '
            f"{shown(wants)}: leave payload out, and {shown(wants)} is read from JSON",
            setting="payload",
        )
    given = bare(gives)
    if given == wanted or _is_kind_of(given, wanted):
        return
    named = shown(payload) if is_type(payload) else _called(payload)
    raise ConfigError(
        f"payload={named} gives {shown(gives)}, and the function takes {shown(wants)}: name the type in one place",
        setting="payload",
    )


def _called(payload: object) -> str:
    return getattr(payload, "__qualname__", None) or type(payload).__qualname__


def _made_of_json(wanted: Any) -> bool:
    origin = typing.get_origin(wanted) or wanted
    if typing.is_typeddict(origin):
        return True
    if not isinstance(origin, type) or dataclasses.is_dataclass(origin):
        return not isinstance(origin, type)
    return origin in (*_JSON_TYPES, collections.abc.Mapping, collections.abc.Sequence)


def _is_kind_of(given: Any, wanted: Any) -> bool:
    left, right = typing.get_origin(given) or given, typing.get_origin(wanted) or wanted
    if typing.is_typeddict(right):
        return left is dict
    if not isinstance(left, type) or not isinstance(right, type):
        return not (isinstance(left, type) or isinstance(right, type))
    inner, outer = typing.get_args(given), typing.get_args(wanted)
    return issubclass(left, right) and (not inner or not outer or inner == outer)
