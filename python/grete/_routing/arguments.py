"""Parameters of handlers and providers: what each of them gets, from its annotation."""

import functools
import inspect
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from grete._native import JobProducer as NativeJobProducer
from grete._native import Message, Messages
from grete._routing import hints
from grete.client import Producer as ClientProducer
from grete.consumer import Consumer
from grete.errors import ConfigError
from grete.parameters import Context, Depends, Marker
from grete.payloads.annotations import type_name, unwrap_optional
from grete.producer import Producer

# Kinds that one record has, and a batch has not.
_OF_RECORD = ("message", "key", "headers", "offset")


@dataclass(frozen=True, slots=True)
class Argument:
    """One parameter.

    Attributes:
        name: its name; keyword: whether it is passed by name.
        kind: "payload", "batch", "message", "messages", "key", "headers", "offset", "attempt", "producer", "context",
            "app", or "provider".
        type: the type of a payload, of a batch's payloads, or of a key; None: bytes.
        provider: what makes the value.
    """

    name: str
    kind: str
    keyword: bool = False
    type: Any = None
    provider: "Provider | None" = None


@dataclass(frozen=True, slots=True, eq=False)
class Provider:
    """Function of a `Depends`, resolved.

    Attributes:
        call_kind: "function", "coroutine", "generator" or "async_generator".
    """

    function: Any
    name: str
    scope: str
    call_kind: str
    arguments: tuple[Argument, ...]

    @property
    def is_async(self) -> bool:
        """Whether it needs an event loop."""
        return self.call_kind in ("coroutine", "async_generator")


class Resolver:
    """Resolves the parameters of one handler. Providers that are named twice are made once."""

    def __init__(self, names: Mapping[str, object], app_class: type | None, *, has_payload: bool = False) -> None:
        """`names`: local names at the declaration. `app_class`: the class that asks for the App. `has_payload`: whether
        the route or a topic says what values are decoded to, so that `Any` is the payload.
        """
        self._has_payload = has_payload
        self._names = names
        self._app_class = app_class
        self._providers: dict[tuple[Any, str], Provider] = {}
        self._open: list[Any] = []

    def arguments(self, handler: Any, where: str) -> tuple[Argument, ...] | None:
        """Returns the arguments of a handler; None: it has no signature. Raises ConfigError."""
        function = hints.unwrap_callable(handler)
        try:
            signature = inspect.signature(handler)
        except ValueError:
            return None  # implemented in C
        except TypeError as error:
            raise ConfigError(f"{where}: {error}") from None
        found: list[Argument] = []
        for parameter in signature.parameters.values():
            argument = self._argument(function, parameter, where, is_first=not found)
            if argument is not None:
                found.append(argument)
        return tuple(found)

    def _argument(self, function: Any, parameter: inspect.Parameter, where: str, *, is_first: bool) -> Argument | None:
        at = f"{where}: {parameter.name}"
        keyword = parameter.kind is inspect.Parameter.KEYWORD_ONLY
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            return None
        if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
            return Argument(parameter.name, "messages") if is_first else None
        has_default = parameter.default is not hints.MISSING
        _check_default(parameter, at)
        if parameter.annotation is hints.MISSING:
            if is_first and not keyword:
                # A lambda cannot be annotated.
                if self._has_payload and getattr(function, "__name__", "") != "<lambda>":
                    raise ConfigError(
                        f"{at} has no annotation, and the values of the route are decoded: annotate it with "
                        f"{parameter.name}: Any (or its type) to get one value, or with {parameter.name}: "
                        "grete.Messages to get a batch",
                        setting=parameter.name,
                    )
                return Argument(parameter.name, "messages")
            if has_default:
                return None
            raise ConfigError(
                f"{at} has no annotation, which says what it gets: annotate it, like {parameter.name}: grete.Message; "
                "bind others with functools.partial",
                setting=parameter.name,
            )
        try:
            annotation = hints.resolve(function, parameter.name, parameter.annotation, self._names, where)
        except ConfigError:
            if has_default and not is_first:
                return None
            raise
        argument = self._from_marker(parameter.name, annotation, at, keyword=keyword)
        if argument is None and has_default and not is_first:
            return None  # no value of ours: the default counts
        return argument or self._plain(parameter.name, annotation, at, keyword=keyword)

    def _from_marker(self, name: str, annotation: Any, at: str, *, keyword: bool) -> Argument | None:
        """Returns the argument that a marker, or a class of ours, says; None: there is none."""
        outer = unwrap_optional_annotated(annotation)
        for marker in hints.markers(outer):
            if isinstance(marker, Depends):
                provider = self.provider(marker, hints.bare(outer), at)
                return Argument(name, "provider", keyword, provider=provider)
            if isinstance(marker, Marker):
                inner = hints.bare(outer)
                wanted = {"key": inner, "batch": next(iter(typing.get_args(inner)), Any)}.get(marker.kind)
                if isinstance(wanted, TypeVar):
                    wanted = None if marker.kind == "key" else Any
                return Argument(name, marker.kind, keyword, wanted)
            _refuse_foreign_depends(marker, name, hints.bare(outer), at)
            if isinstance(marker, type) and issubclass(marker, Depends):
                raise ConfigError(
                    f"{at}: Depends needs a function: Annotated[..., grete.Depends(get_it)]", setting=name
                )
        if isinstance(annotation, Depends):
            raise ConfigError(
                f"{at} is annotated with Depends itself: write {name}: Annotated[TYPE, grete.Depends(...)]",
                setting=name,
            )
        plain = unwrap_optional(annotation)
        kind = self._class_kind(typing.get_origin(plain) or plain)
        if kind is None:
            return None
        inner = next(iter(typing.get_args(plain)), None) if kind in ("message", "messages") else None
        return Argument(name, kind, keyword, inner)

    def _class_kind(self, plain: Any) -> str | None:
        if plain is Message:
            return "message"
        if plain is Messages:
            return "messages"
        if plain is Context:
            return "context"
        if not isinstance(plain, type):
            return None
        if plain is Producer or issubclass(plain, NativeJobProducer):
            return "producer"
        return "app" if self._app_class is not None and issubclass(plain, self._app_class) else None

    def _plain(self, name: str, annotation: Any, at: str, *, keyword: bool) -> Argument:
        """Returns the argument for the payload, or for messages."""
        plain = unwrap_optional(annotation)
        if plain in (Any, object):
            return Argument(name, "payload", keyword, Any) if self._has_payload else Argument(name, "messages", keyword)
        if any((typing.get_origin(one) or one) in (Message, Messages) for one in typing.get_args(plain)):
            raise ConfigError(
                f"{at} is {type_name(annotation)}: a function takes grete.Messages (a batch, that one can iterate), "
                "grete.Message (one by one) or a payload type",
                setting=name,
            )
        if plain in (None, type(None)) or plain is typing.NoReturn:
            raise ConfigError(f"{at} is {type_name(annotation)}, which no message is", setting=name)
        if isinstance(plain, TypeVar):
            raise ConfigError(f"{at} is the type variable {plain}: name the type", setting=name)
        if isinstance(plain, type) and issubclass(plain, Consumer):
            raise ConfigError(
                f"{at} is {type_name(annotation)}: take grete.Messages; a function has no consumer of its own, but may "
                "take grete.Context",
                setting=name,
            )
        if isinstance(plain, type) and issubclass(plain, ClientProducer):
            raise ConfigError(
                f"{at} is {type_name(annotation)}: take grete.Producer, whose records belong to the job and hold back "
                "its offsets until they are written",
                setting=name,
            )
        return Argument(name, "payload", keyword, annotation)

    def provider(self, depends: Depends, wanted: Any, at: str) -> Provider:
        """Returns the resolved provider of a `Depends`. `wanted`: the type of the parameter."""
        function = depends.function
        key = function, depends.scope
        name = getattr(function, "__qualname__", None) or type(function).__qualname__
        if function in self._open:
            raise ConfigError(f"{at}: {name} depends on itself: {' -> '.join(map(_name, [*self._open, function]))}")
        known = self._providers.get(key)
        if known is None:
            self._open.append(function)
            try:
                known = self._providers[key] = self._resolve_provider(depends, name, at)
            finally:
                self._open.pop()
        given = self._provided_type(function)
        if given is not None and hints.contradict(given, wanted):
            raise ConfigError(
                f"{at} is {type_name(wanted)}, and {name} makes {type_name(given)}: annotate the parameter with "
                f"{type_name(given)}, or depend on another function"
            )
        return known

    def _resolve_provider(self, depends: Depends, name: str, at: str) -> Provider:
        where = f"{at}: provider {name}"
        function = depends.function
        # An object without `__call__` of Python, or a class, is called as it is.
        called = function if isinstance(function, type) else hints.unwrap_callable(function)
        arguments: list[Argument] = []
        try:
            parameters = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            parameters = {}.values()
        annotated = function.__init__ if isinstance(function, type) else called  # type: ignore[misc]
        for parameter in parameters:
            if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
                continue
            has_default = parameter.default is not hints.MISSING
            _check_default(parameter, f"{where}: {parameter.name}")
            if parameter.annotation is hints.MISSING and has_default:
                continue
            if parameter.annotation is hints.MISSING:
                raise ConfigError(f"{where}: {parameter.name} has no annotation, which says what it gets")
            argument = self._argument(annotated, parameter, where, is_first=False)
            if argument is not None:
                arguments.append(argument)
        for argument in arguments:
            self._check_scope(depends, argument, where)
        return Provider(function, name, depends.scope, hints.call_kind(called), tuple(arguments))

    def _check_scope(self, depends: Depends, argument: Argument, where: str) -> None:
        if argument.kind in ("payload", "batch"):
            raise ConfigError(
                f"{where}: {argument.name} would be the payload, which only the handler gets: take grete.Message or "
                "grete.Messages, or another provider",
                setting=argument.name,
            )
        if depends.scope != "process" or argument.kind == "app":
            return
        if argument.provider is None or argument.provider.scope != "process":
            what = argument.kind if argument.provider is None else f"{argument.provider.name} (scope call)"
            raise ConfigError(
                f'{where} has the scope "process", and its parameter {argument.name} ({what}) changes with each call: '
                'leave the parameter out, or say scope="call"',
                setting=argument.name,
            )

    def _provided_type(self, function: Any) -> Any:
        """Returns the type that a provider makes; None: unknown."""
        if isinstance(function, type):
            return function
        called = hints.unwrap_callable(function)
        annotation = getattr(called, "__annotations__", {}).get("return", hints.MISSING)
        if annotation is hints.MISSING:
            return None
        try:
            found = hints.awaited(hints.resolve(called, "return", annotation, self._names, ""))
        except ConfigError:
            return None
        if hints.call_kind(called) in ("generator", "async_generator"):
            found = hints.element(found)
        return None if hints.is_nothing(found) else found


def unwrap_optional_annotated(annotation: Any) -> Any:
    """Returns the `Annotated` in `Annotated[...] | None`; anything else unchanged."""
    if hints.markers(annotation):
        return annotation
    inside = [one for one in typing.get_args(annotation) if hints.markers(one)]
    return inside[0] if len(inside) == 1 and unwrap_optional(annotation) is not annotation else annotation


def check_arguments(arguments: tuple[Argument, ...], where: str, *, is_async: bool) -> None:
    """Refuses arguments that contradict each other. Raises ConfigError."""
    payloads = [one for one in arguments if one.kind == "payload"]
    if len(payloads) > 1:
        first, second = payloads[0], payloads[1]
        raise ConfigError(
            f"{where}: {first.name}: {type_name(first.type)} and {second.name}: {type_name(second.type)} would both be "
            f"the payload, and a record has one: {_cure_of_second(payloads)}",
            setting=second.name,
        )
    batch = next((one for one in arguments if one.kind in ("batch", "messages")), None)
    for argument in _all(arguments):
        if batch is not None and argument.kind in (*_OF_RECORD, "payload"):
            if argument.kind == "payload":
                what, cure = (
                    f"{argument.name}: {type_name(argument.type)} would be the payload of one",
                    "bind it with functools.partial, ",
                )
            else:
                what, cure = f"{argument.name} is the {argument.kind} of one", ""
            raise ConfigError(
                f"{where}: {batch.name} is a batch of records, and {what}: {cure}take messages: grete.Messages, "
                "which has all of them, or one record at a time",
                setting=argument.name,
            )
        if batch is None and argument.kind in ("messages", "batch"):
            raise ConfigError(
                f"{where}: {argument.name} is a batch, and the handler gets one record at a time: take grete.Message",
                setting=argument.name,
            )
        if argument.provider is not None and argument.provider.is_async and not is_async:
            raise ConfigError(
                f"{where}: {argument.name} comes from {argument.provider.name}, which is async, but the handler is a "
                "plain def, which runs in a thread without a loop: make the handler async def, or the provider a def",
                setting=argument.name,
            )


def _check_default(parameter: inspect.Parameter, at: str) -> None:
    """Refuses a `Depends` as the default value of a parameter: the handler would get the `Depends` itself."""
    default = parameter.default
    annotation = parameter.annotation
    if not isinstance(annotation, str):
        annotation = "TYPE" if annotation is hints.MISSING else type_name(annotation)
    _refuse_foreign_depends(default, parameter.name, annotation, at)
    if isinstance(default, Depends):
        raise ConfigError(
            f"{at} has grete.Depends as its default value: write "
            f"{parameter.name}: Annotated[{annotation}, grete.Depends({_name(default.function)})]",
            setting=parameter.name,
        )


def _refuse_foreign_depends(value: Any, name: str, annotation: Any, at: str) -> None:
    """Refuses FastAPI's `Depends`, known by its module's name, so that FastAPI is not imported."""
    made_by = type(value)
    if made_by.__name__ in ("Depends", "Security") and made_by.__module__.partition(".")[0] == "fastapi":
        inside = annotation if isinstance(annotation, str) else type_name(annotation)
        function = getattr(value, "dependency", None)
        raise ConfigError(
            f"{at}: this is FastAPI's {made_by.__name__}; use grete.Depends: "
            f"{name}: Annotated[{inside}, grete.Depends({'...' if function is None else _name(function)})]",
            setting=name,
        )


def _cure_of_second(payloads: list[Argument]) -> str:
    """Returns the cure for a second payload. A parameter's name may say what it should get."""
    for one in payloads:
        wanted = {
            "key": f"grete.Key[{type_name(one.type)}]",
            "headers": "grete.Headers",
            "offset": "grete.Offset",
            "attempt": "grete.Attempt",
        }.get(one.name)
        if wanted is not None:
            return f"write {one.name}: {wanted}"
    return (
        "annotate the other one with grete.Key[...], grete.Headers, Annotated[..., grete.Depends(...)] or another of "
        "docs/handlers.md"
    )


def providers(arguments: tuple[Argument, ...]) -> list[Provider]:
    """Returns all providers of the arguments, each once, those that others need first."""
    found: dict[int, Provider] = {}

    def add(some: tuple[Argument, ...]) -> None:
        for argument in some:
            provider = argument.provider
            if provider is not None and id(provider) not in found:
                add(provider.arguments)
                found[id(provider)] = provider

    add(arguments)
    return list(found.values())


def _all(arguments: tuple[Argument, ...]) -> list[Argument]:
    return [*arguments, *(one for provider in providers(arguments) for one in provider.arguments)]


def _name(function: Any) -> str:
    if isinstance(function, functools.partial):
        return _name(function.func)
    return getattr(function, "__qualname__", None) or type(function).__qualname__
