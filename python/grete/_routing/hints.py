"""Annotations of handlers and providers, resolved one by one: others may name what only type checkers know."""

import collections.abc
import functools
import inspect
import types
import typing
from collections.abc import Mapping
from typing import Annotated, Any

from grete.errors import ConfigError
from grete.payloads.annotations import unwrap_optional

_MANY = (
    collections.abc.Iterator,
    collections.abc.Iterable,
    collections.abc.Generator,
    collections.abc.AsyncIterator,
    collections.abc.AsyncIterable,
    collections.abc.AsyncGenerator,
    collections.abc.Sequence,
    list,
    tuple,
)
_AWAITABLE = (collections.abc.Awaitable, collections.abc.Coroutine)

MISSING = inspect.Parameter.empty


def unwrap_callable(handler: Any) -> Any:
    """Returns the function that a call of the handler runs."""
    if isinstance(handler, functools.partial):
        return unwrap_callable(handler.func)
    if isinstance(handler, staticmethod):
        return unwrap_callable(handler.__func__)
    if inspect.isroutine(handler) or isinstance(handler, type):
        return handler
    return type(handler).__call__


def resolve(function: Any, name: str, annotation: Any, names: Mapping[str, object], where: str) -> Any:
    """Returns an annotation with its names resolved; `names`: local names at the declaration. Raises ConfigError."""
    holder = types.SimpleNamespace(__annotations__={name: annotation})
    origin = inspect.unwrap(function)
    origin = getattr(origin, "__func__", origin)
    try:
        hints = typing.get_type_hints(holder, getattr(origin, "__globals__", {}), dict(names), include_extras=True)
    except Exception as error:
        raise ConfigError(
            f"{where}: the annotation of {name} cannot be resolved: {error}; import what it names at run time, "
            "not only if TYPE_CHECKING"
        ) from error
    return hints[name]


def call_kind(function: Any) -> str:
    """Returns "function", "coroutine", "generator" or "async_generator"."""
    if inspect.isasyncgenfunction(function):
        return "async_generator"
    if inspect.isgeneratorfunction(function):
        return "generator"
    return "coroutine" if inspect.iscoroutinefunction(function) else "function"


def markers(annotation: Any) -> tuple[Any, ...]:
    """Returns what `Annotated` says beside the type."""
    return tuple(annotation.__metadata__) if typing.get_origin(annotation) is Annotated else ()


def bare(annotation: Any) -> Any:
    """Returns the type in `Annotated`."""
    return annotation.__origin__ if typing.get_origin(annotation) is Annotated else annotation


def awaited(annotation: Any) -> Any:
    """Returns `T` for `Awaitable[T]` and `Coroutine[..., T]`; anything else unchanged."""
    if typing.get_origin(annotation) in _AWAITABLE:
        return typing.get_args(annotation)[-1]
    return annotation


def element(annotation: Any) -> Any:
    """Returns `T` for an iterator, a list or another collection of `T`; anything else unchanged."""
    origin = typing.get_origin(annotation)
    if origin in _MANY:
        return typing.get_args(annotation)[0]
    return Any if annotation in _MANY and annotation is not MISSING else annotation


def is_nothing(annotation: Any) -> bool:
    """Returns whether the annotation of a return says that there is no value, or nothing at all."""
    plain = awaited(annotation)
    if typing.get_origin(plain) in (typing.Union, types.UnionType):
        return all(map(is_nothing, typing.get_args(plain)))
    return plain in (MISSING, None, type(None), Any, object, typing.NoReturn, typing.Never) or isinstance(
        plain, typing.TypeVar
    )


def contradict(given: Any, wanted: Any) -> bool:
    """Returns whether two annotations are classes, and no value of the first is one of the second."""
    left, right = unwrap_optional(given), unwrap_optional(wanted)
    left, right = typing.get_origin(left) or left, typing.get_origin(right) or right
    if (
        not isinstance(left, type)
        or not isinstance(right, type)
        or typing.is_typeddict(left)
        or typing.is_typeddict(right)
    ):
        return False
    if getattr(left, "_is_protocol", False) or getattr(right, "_is_protocol", False) or object in (left, right):
        return False
    return not issubclass(left, right) and not issubclass(right, left)
