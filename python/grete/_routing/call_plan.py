"""Call plans: how a handler is called with what it names. One is compiled for each route, at its declaration.

A plan is a Python function made of a few lines, like the `__init__` of a dataclass: for each record it reads what the
parameters need, calls the providers and the handler, and passes the result on. Nothing is looked up for each record.
"""

import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from grete._config import topic_patterns
from grete._native import Message, Messages
from grete._process.callsite import PACKAGE
from grete._routing.arguments import Argument, Provider, providers
from grete._routing.provider_scopes import AsyncGeneratorScope, GeneratorScope
from grete._routing.results import ResultTopic, ResultWriter
from grete.errors import DecodeError
from grete.parameters import Context
from grete.payloads import Decoder
from grete.payloads.annotations import type_name
from grete.payloads.encode import headers_of, writer_of

if TYPE_CHECKING:
    from grete.app import App
    from grete.consumer import Consumer

# File of compiled plans in tracebacks: below the package, so that its frames are Grete's.
_FILE = f"{PACKAGE}_routing/<call plan>"

# Expressions of arguments; the others are names of what `bind` gets.
_OF_RECORD = {kind: f"message.{kind}" for kind in ("payload", "headers", "offset")} | {
    "key": "key_of(message)",
    "attempt": "attempt_of(message)",
}
_OF_BATCH = {"batch": "messages.payloads()", "attempt": "attempt_of(messages)"}


@dataclass(frozen=True, slots=True, eq=False)
class CallPlan:
    """Compiled call of a handler.

    Attributes:
        is_batch: whether it is called with `Messages`, else with each `Message`.
        is_async: whether the call is a coroutine.
        process_providers: providers whose values are made once for the process.
        result_topic: topic of the results; None: they are dropped.
        publishes_payloads: whether the call is no more than the handler with the payload, and each result of the
            topic's class is a record: the native loop does that by itself.
    """

    is_batch: bool
    is_async: bool
    arguments: tuple[Argument, ...]
    process_providers: tuple[Provider, ...]
    result_topic: ResultTopic | None
    source: str
    _bind: Callable[..., Any]
    publishes_payloads: bool = False

    def bind(
        self,
        consumer: "Consumer",
        function: Any,
        app: "App | None",
        process_values: Mapping[Provider, Any],
        key_decoders: Mapping[str, Decoder],
        on_dropped: Callable[[Any], None],
    ) -> Callable[[Any], Any]:
        """Returns the call for one consumer instance: it takes a message, or messages.

        `on_dropped` gets results that go nowhere.
        """
        writer = None if self.result_topic is None else ResultWriter(self.result_topic, consumer.producer)
        values: dict[str, Any] = {
            "consumer": consumer,
            "function": function,
            "app": app,
            "context": Context(consumer, app),  # type: ignore[arg-type]
            "producer": consumer.producer if self._needs("producer") else None,
            "key_of": _key_reader(self._key_argument(), topic_patterns.lookup(key_decoders, consumer.topic)),
            "attempt_of": _attempt_reader(consumer, is_batch=self.is_batch),
            "on_dropped": on_dropped,
            "write": None,
            "scope": GeneratorScope,
            "async_scope": AsyncGeneratorScope,
        }
        if writer is not None and self.result_topic is not None:
            write = (
                (writer.write_batch_async if self.is_async else writer.write_batch)
                if self.is_batch
                else (writer.write_async if self.is_async else writer.write)
            )
            values |= {
                "write": write,
                "plain": self.result_topic.plain,
                "publish": consumer.producer._publish,  # noqa: SLF001
                "try_publish": consumer.producer._try_publish,  # noqa: SLF001
                "append": consumer.producer.append,
                "encode": writer_of(self.result_topic.encode_value),
                "encode_checked": self.result_topic.encode_value,
                "topic": self.result_topic.topic,
            }
        for number, provider in enumerate(providers(self.arguments)):
            values[f"value{number}" if provider.scope == "process" else f"make{number}"] = (
                process_values[provider] if provider.scope == "process" else provider.function
            )
        call: Callable[[Any], Any] = self._bind(**values)
        # Errors of the native loop name the user's function.
        call.__name__ = getattr(function, "__name__", type(function).__name__)
        call.__qualname__ = getattr(function, "__qualname__", call.__name__)
        call.__module__ = getattr(function, "__module__", "")
        return call

    def _needs(self, kind: str) -> bool:
        return any(
            one.kind == kind
            for arguments in (self.arguments, *(provider.arguments for provider in providers(self.arguments)))
            for one in arguments
        )

    def _key_argument(self) -> Argument | None:
        for arguments in (self.arguments, *(provider.arguments for provider in providers(self.arguments))):
            for one in arguments:
                if one.kind == "key":
                    return one
        return None


def compile_plan(
    arguments: tuple[Argument, ...], call_kind: str, result_topic: ResultTopic | None, *, is_batch: bool, is_async: bool
) -> CallPlan:
    """Compiles the call of a handler. `call_kind`: see `hints.call_kind`."""
    source, names = _write_source(arguments, call_kind, result_topic, is_batch=is_batch, is_async=is_async)
    namespace: dict[str, Any] = {}
    exec(compile(source, _FILE, "exec"), namespace)  # noqa: S102 (of the names below alone, as in dataclasses)
    process = tuple(one for one in providers(arguments) if one.scope == "process")
    bind = namespace["bind"]

    def bind_known(**values: Any) -> Any:
        return bind(*(values.get(name) for name in names))

    publishes_payloads = (
        call_kind == "function"
        and not is_batch
        and [(one.kind, one.keyword) for one in arguments] == [("payload", False)]
        and result_topic is not None
        and result_topic.plain is not None
        and headers_of(result_topic.encode_value) is None
    )
    return CallPlan(is_batch, is_async, arguments, process, result_topic, source, bind_known, publishes_payloads)


def _write_source(
    arguments: tuple[Argument, ...], call_kind: str, result_topic: ResultTopic | None, *, is_batch: bool, is_async: bool
) -> tuple[str, list[str]]:
    known = providers(arguments)
    numbers = {id(provider): number for number, provider in enumerate(known)}
    names = ["consumer", "function", "app", "context", "producer", "key_of", "attempt_of", "on_dropped", "write"]
    names += ["scope", "async_scope", "plain", "publish", "try_publish", "append", "encode", "encode_checked", "topic"]
    names += [f"{'value' if one.scope == 'process' else 'make'}{number}" for number, one in enumerate(known)]
    given = "messages" if is_batch else "message"
    of_input = _OF_BATCH if is_batch else _OF_RECORD

    def expression(argument: Argument) -> str:
        if argument.provider is not None:
            text = f"value{numbers[id(argument.provider)]}"
        else:
            text = of_input.get(argument.kind, argument.kind)
        return f"{argument.name}={text}" if argument.keyword else text

    def call_of(function: str, some: tuple[Argument, ...]) -> str:
        return f"{function}({', '.join(map(expression, some))})"

    lines: list[str] = []
    depth = 2
    for number, provider in enumerate(known):
        if provider.scope == "process":
            continue
        call = call_of(f"make{number}", provider.arguments)
        lines.append("    " * depth + _PROVIDER_LINES[provider.call_kind].format(value=f"value{number}", call=call))
        depth += provider.call_kind in ("generator", "async_generator")
    pad = "    " * depth
    awaits = "await " if call_kind == "coroutine" else ""
    lines.append(f"{pad}result = {awaits}{call_of('function', arguments)}")
    lines += [pad + line for line in _result_lines(result_topic, given, is_batch=is_batch, is_async=is_async)]
    head = f"    {'async ' if is_async else ''}def call({given}):"
    return "\n".join([f"def bind({', '.join(names)}):", head, *lines, "    return call", ""]), names


_PROVIDER_LINES = {
    "function": "{value} = {call}",
    "coroutine": "{value} = await {call}",
    "generator": "with scope({call}) as {value}:",
    "async_generator": "async with async_scope({call}) as {value}:",
}


def _result_lines(result_topic: ResultTopic | None, given: str, *, is_batch: bool, is_async: bool) -> list[str]:
    if result_topic is None:
        return ["if result is not None:", "    return on_dropped(result)"]
    awaits = "await " if is_async else ""
    if is_batch or result_topic.plain is None or headers_of(result_topic.encode_value) is not None:
        return ["if result is not None:", f"    {awaits}write(result, {given})"]
    # The usual case without a call in between: one value of the topic's class.
    publish = ["publish(topic, value, message)"]
    if is_async:
        # Nearly always there is room, and a coroutine for each record would cost more than the record.
        publish = ["if not try_publish(topic, value, message):", "    await append(topic, value, message.key)"]
    return [
        "if result.__class__ is plain:",
        "    try:",
        "        value = encode(result)",
        "    except Exception:",
        "        value = encode_checked(result)",  # which says topic and type
        *(f"    {line}" for line in publish),
        "elif result is not None:",
        f"    {awaits}write(result, message)",
    ]


def _attempt_reader(consumer: "Consumer", *, is_batch: bool) -> Callable[[Any], int]:
    def of_message(message: Message) -> int:
        # Attempts are those of the first unmarked record: the records behind it have not run yet.
        return consumer.attempt if message.offset == consumer.messages.first_offset else 1

    def of_batch(_messages: Messages) -> int:
        return consumer.attempt

    return of_batch if is_batch else of_message


def _key_reader(argument: Argument | None, decoder: Decoder | None) -> Callable[[Message], Any] | None:
    if argument is None:
        return None
    nullable = argument.type is None or _allows_none(argument.type)
    wanted = argument.type

    def key_of(message: Message) -> Any:
        key = message.key
        if key is None:
            if nullable:
                return None
            raise DecodeError(
                f"{message.topic}[{message.partition}] offset {message.offset} has no key, and the handler takes "
                f"grete.Key[{type_name(wanted)}]: take grete.Key[{type_name(wanted)} | None]",
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                message=message,
            )
        if decoder is None:
            return key
        try:
            return decoder(key)
        except Exception as error:
            raise DecodeError(
                f"the key of {message.topic}[{message.partition}] offset {message.offset} cannot be decoded: "
                f"{type(error).__name__}: {error}",
                topic=message.topic,
                partition=message.partition,
                offset=message.offset,
                message=message,
            ) from error

    return key_of


def _allows_none(annotation: Any) -> bool:
    return annotation in (None, Any) or type(None) in typing.get_args(annotation)
