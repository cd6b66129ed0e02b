"""Kind of a consumer class or function, read from its signature and annotation."""

import functools
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from grete._routing import hints
from grete._routing.arguments import Argument, Resolver, check_arguments, providers
from grete._routing.hook_names import check_methods
from grete.consumer import Consumer
from grete.errors import ConfigError

_HOOKS = ("initialize", "consume", "revoked", "shutdown", "eof", "tick")


@dataclass(frozen=True, slots=True)
class HandlerSignature:
    """Properties of a handler.

    Attributes:
        name: its name in messages: "Orders.consume" or "charge".
        style: "class", "messages" (a batch), "message" (one by one) or "payload" (one by one, decoded).
        is_async: whether it runs on the event loop.
        payload_type: the payload type in its annotation; None in other styles.
        eof, tick: whether it has these hooks.
        arguments: what each parameter of a function gets; None: the messages, or a class.
        call_kind: "function", "coroutine", "generator" or "async_generator".
        returns: annotation of its return; `hints.MISSING`: none.
    """

    name: str
    style: str
    is_async: bool
    payload_type: Any = None
    eof: bool = False
    tick: bool = False
    arguments: tuple[Argument, ...] | None = field(default=None, compare=False)
    call_kind: str = field(default="function", compare=False)
    returns: Any = field(default=hints.MISSING, compare=False)

    @property
    def needs_plan(self) -> bool:
        """Whether the handler needs more than one message, payload or batch as its only argument."""
        if self.arguments is None:
            return False
        return (
            len(self.arguments) != 1
            or self.arguments[0].keyword
            or self.arguments[0].kind not in ("payload", "message", "messages")
        )


def handler_name(handler: Any) -> str:
    """Returns the name of a handler in messages."""
    if isinstance(handler, functools.partial):
        return handler_name(handler.func)
    name = getattr(handler, "__qualname__", None)
    if not isinstance(name, str):
        return type(handler).__qualname__ if callable(handler) else repr(handler)
    name = name.rpartition("<locals>.")[2]
    return f"{name}.consume" if isinstance(handler, type) else name


def inspect_handler(
    handler: Any, names: Mapping[str, object], app_class: type | None = None, *, has_payload: bool = False
) -> HandlerSignature:
    """Returns the signature of a handler. `names`: the local names at its declaration. `app_class`: annotation of
    parameters that get the App. `has_payload`: whether the route or a topic says what values are decoded to.
    ConfigError says what is not allowed.
    """
    if isinstance(handler, type):
        return _class(handler, names)
    return _function(handler, names, app_class, has_payload=has_payload)


def _class(handler: type, names: Mapping[str, object]) -> HandlerSignature:
    where = f"consumer {handler.__qualname__}"
    if not issubclass(handler, Consumer):
        raise ConfigError(
            f"{where}: a consumer class derives from grete.Consumer: class {handler.__name__}(grete.Consumer)"
        )
    if handler.consume is Consumer.consume:
        raise ConfigError(f"{where} has no consume method: define consume(self); the messages are in self.messages")
    is_async = inspect.iscoroutinefunction(handler.consume)
    check_methods(handler, _HOOKS, where)
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
        pass  # implemented in C, without a signature
    return HandlerSignature(
        name=handler_name(handler),
        style="class",
        is_async=is_async,
        eof=_overrides(handler, "eof"),
        tick=_overrides(handler, "tick"),
        returns=_returns(handler.consume, names),
    )


def _overrides(handler: type, hook: str) -> bool:
    return getattr(handler, hook, None) is not getattr(Consumer, hook, None)


def _check_hook(handler: type, hook: str, where: str) -> None:
    if not _overrides(handler, hook):
        return
    found = getattr(handler, hook)
    if not callable(found):
        raise ConfigError(f"{where}.{hook} is a {type(found).__name__}, not a method", setting=hook)
    _refuse_generator(found, f"{where}.{hook}")
    # For these two, the class returns the same object as an instance.
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


def _function(
    handler: Any, names: Mapping[str, object], app_class: type | None, *, has_payload: bool
) -> HandlerSignature:
    name = handler_name(handler)
    where = f"consumer {name}"
    if not callable(handler):
        raise ConfigError(f"{where}: a consumer is a class or a function, not {handler!r}")
    function = hints.unwrap_callable(handler)
    call_kind = hints.call_kind(function)
    is_async = call_kind in ("coroutine", "async_generator")
    arguments = Resolver(names, app_class, has_payload=has_payload).arguments(handler, where)
    if arguments is None:
        # Implemented in C, without a signature: it gets a batch, and raises if it does not accept one.
        return HandlerSignature(name, "messages", is_async=False)
    if not arguments:
        raise ConfigError(
            f"{where}: a function consumer takes grete.Messages, a grete.Message or a payload, but its signature is "
            f"{inspect.signature(handler)}: give it a parameter, like def {name}(message: grete.Message)"
        )
    check_arguments(arguments, where, is_async=is_async)
    payload = next((one for one in arguments if one.kind == "payload"), None)
    batch = next((one for one in arguments if one.kind in ("batch", "messages")), None)
    typed = next(
        (one.type for one in arguments if one.kind in ("batch", "message", "messages") and one.type is not None), None
    )
    style = "messages" if batch is not None else "payload" if payload is not None else "message"
    return HandlerSignature(
        name,
        style,
        is_async,
        payload.type if payload is not None else typed,
        arguments=arguments,
        call_kind=call_kind,
        returns=_returns(function, names),
    )


def key_types(arguments: tuple[Argument, ...]) -> list[Any]:
    """Returns the types of all parameters that get the key, those of providers included; None: as the topic says."""
    some = [*arguments, *(one for provider in providers(arguments) for one in provider.arguments)]
    return [one.type for one in some if one.kind == "key"]


def _returns(function: Any, names: Mapping[str, object]) -> Any:
    """Returns the annotation of the return; `hints.MISSING` if there is none that can be resolved."""
    if isinstance(function, type):
        return hints.MISSING
    annotation = getattr(inspect.unwrap(function), "__annotations__", {}).get("return", hints.MISSING)
    if annotation is hints.MISSING:
        return hints.MISSING
    try:
        return hints.resolve(function, "return", annotation, names, "")
    except ConfigError:
        return hints.MISSING  # only type checkers know it


def _refuse_generator(function: Callable[..., Any], where: str) -> None:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise ConfigError(f"{where} has a yield in it: calling it would run none of its lines; leave the yield out")
