"""What kind of consumer a class or a function is, read from its signature and its annotation."""

import functools
import inspect
import types
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from grete._core import Message, Messages
from grete.consumer import Consumer
from grete.errors import ConfigError

_HOOKS = ("initialize", "consume", "revoked", "shutdown", "eof", "tick")


@dataclass(frozen=True, slots=True)
class Shape:
    """What a handler wants.

    Attributes:
        name: what it is called in messages: "Orders.consume" or "charge".
        style: "class", "messages" (a batch), "message" (one by one) or "payload" (one by one, decoded).
        is_async: whether it runs on the event loop.
        wants: the payload type in its annotation; None in other styles.
        eof, tick: whether it has these hooks.
    """

    name: str
    style: str
    is_async: bool
    wants: Any = None
    eof: bool = False
    tick: bool = False


def name_of(handler: Any) -> str:
    """What a handler is called in messages."""
    if isinstance(handler, functools.partial):
        return name_of(handler.func)
    name = getattr(handler, "__qualname__", None)
    if not isinstance(name, str):
        return type(handler).__qualname__ if callable(handler) else repr(handler)
    name = name.rpartition("<locals>.")[2]
    return f"{name}.consume" if isinstance(handler, type) else name


def read(handler: Any, names: Mapping[str, object]) -> Shape:
    """The shape of a handler; `names` are the local ones at its declaration. ConfigError says what it cannot be."""
    return _class(handler) if isinstance(handler, type) else _function(handler, names)


def _class(handler: type) -> Shape:
    where = f"consumer {handler.__qualname__}"
    if not issubclass(handler, Consumer):
        raise ConfigError(
            f"{where}: a consumer class derives from grete.Consumer: class {handler.__name__}(grete.Consumer)"
        )
    if handler.consume is Consumer.consume:
        raise ConfigError(f"{where} has no consume method: define consume(self); the messages are in self.messages")
    is_async = inspect.iscoroutinefunction(handler.consume)
    for hook in _HOOKS:
        _check_hook(handler, hook, where)
        if not is_async and inspect.iscoroutinefunction(getattr(handler, hook)):
            raise ConfigError(
                f"{where}.{hook} is async def, but consume is a plain def, which runs in a thread without a loop: "
                f"make consume async def, too, or {hook} a plain def",
                setting=hook,
            )
    try:
        inspect.signature(handler).bind()
    except TypeError as error:
        raise ConfigError(
            f"{where}: instances are made without arguments, but __init__ says: {error}; set things up in initialize"
        ) from None
    except ValueError:
        pass  # made in C, without a signature
    return Shape(
        name=name_of(handler),
        style="class",
        is_async=is_async,
        eof=_has(handler, "eof"),
        tick=_has(handler, "tick"),
    )


def _has(handler: type, hook: str) -> bool:
    return getattr(handler, hook, None) is not getattr(Consumer, hook, None)


def _check_hook(handler: type, hook: str, where: str) -> None:
    if not _has(handler, hook):
        return
    found = getattr(handler, hook)
    if not callable(found):
        raise ConfigError(f"{where}.{hook} is a {type(found).__name__}, not a method", setting=hook)
    _refuse_generator(found, f"{where}.{hook}")
    # Of these two, the class already gives what an instance would.
    bound = isinstance(inspect.getattr_static(handler, hook), (staticmethod, classmethod))
    try:
        inspect.signature(found).bind(*(() if bound else (None,)))
    except TypeError as error:
        hint = "; the messages are in self.messages" if hook == "consume" else ""
        raise ConfigError(
            f"{where}.{hook} is called without arguments, but its signature says: {error}{hint}"
        ) from None
    except ValueError:
        pass


def _function(handler: Any, names: Mapping[str, object]) -> Shape:
    name = name_of(handler)
    where = f"consumer {name}"
    if not callable(handler):
        raise ConfigError(f"{where}: a consumer is a class or a function, not {handler!r}")
    function = _underlying(handler)
    _refuse_generator(function, where)
    try:
        signature = inspect.signature(handler)
        signature.bind(None)
    except TypeError as error:
        raise ConfigError(
            f"{where}: a function consumer takes one argument (grete.Messages, a grete.Message or a payload), "
            f"but its signature says: {error}; bind others with functools.partial"
        ) from None
    except ValueError:
        # Made in C, without a signature: it will take a batch or say that it does not.
        return Shape(name, "messages", is_async=False)
    first = next(iter(signature.parameters.values()))
    style, wants = _style(_annotation(function, first, names, where), f"{where}: {first.name}")
    return Shape(name, style, inspect.iscoroutinefunction(function), wants)


def _underlying(handler: Any) -> Any:
    """The function that a call of the handler comes to."""
    if isinstance(handler, functools.partial):
        return _underlying(handler.func)
    if isinstance(handler, staticmethod):
        return _underlying(handler.__func__)
    if inspect.isroutine(handler) or isinstance(handler, type):
        return handler
    return type(handler).__call__


def _annotation(function: Any, first: inspect.Parameter, names: Mapping[str, object], where: str) -> Any:
    """The first parameter's annotation, `Messages` if there is none. Only that one: others may not be resolvable."""
    if first.annotation is inspect.Parameter.empty or first.kind is inspect.Parameter.VAR_POSITIONAL:
        return Messages
    holder = types.SimpleNamespace(__annotations__={first.name: first.annotation})
    origin = inspect.unwrap(function)
    origin = getattr(origin, "__func__", origin)
    try:
        hints = typing.get_type_hints(holder, getattr(origin, "__globals__", {}), dict(names), include_extras=True)
    except Exception as error:
        raise ConfigError(
            f"{where}: the annotation of {first.name} cannot be resolved: {error}; import what it names at run time, "
            "not only if TYPE_CHECKING"
        ) from error
    return hints[first.name]


def _style(annotation: Any, where: str) -> tuple[str, Any]:
    plain = bare(annotation)
    if plain in (Any, object) or plain is Messages:
        return "messages", None
    if plain is Message:
        return "message", None
    inside = [_class_of(one) for one in typing.get_args(plain)]
    if any(one in (Message, Messages) for one in inside):
        raise ConfigError(
            f"{where} is {shown(annotation)}: a function takes grete.Messages (a batch, that one can iterate), "
            "grete.Message (one by one) or a payload type"
        )
    if plain in (None, type(None)) or plain is typing.NoReturn:
        raise ConfigError(f"{where} is {shown(annotation)}, which no message is")
    if isinstance(plain, TypeVar):
        raise ConfigError(f"{where} is the type variable {plain}: name the type")
    if isinstance(plain, type) and issubclass(plain, Consumer):
        raise ConfigError(f"{where} is {shown(annotation)}: take grete.Messages; a function has no consumer of its own")
    return "payload", annotation


def _class_of(annotation: Any) -> Any:
    return typing.get_origin(annotation) or annotation


def bare(annotation: Any) -> Any:
    """`Order` of `Order | None` and of `Annotated[Order, ...]`; anything else as it is."""
    if typing.get_origin(annotation) is Annotated:
        return bare(annotation.__origin__)
    if typing.get_origin(annotation) not in (typing.Union, types.UnionType):
        return annotation
    rest = tuple(one for one in typing.get_args(annotation) if one is not type(None))
    if not rest:
        return type(None)
    return bare(rest[0]) if len(rest) == 1 else functools.reduce(lambda left, right: left | right, rest)


def shown(annotation: Any) -> str:
    """A type as people write it."""
    if isinstance(annotation, type) and typing.get_origin(annotation) is None:
        return annotation.__qualname__
    return str(annotation).removeprefix("typing.")


def _refuse_generator(function: Callable[..., Any], where: str) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where} has a yield in it: calling it would run none of its lines; leave the yield out")
