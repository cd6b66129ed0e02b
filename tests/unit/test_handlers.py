"""What a handler gets is read from its signature: all styles, sync and async, in all the ways to write a function."""

import functools
import typing
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Optional

import pytest

import grete
from grete._routing import signatures
from grete._routing.signatures import HandlerSignature
from tests.unit import string_annotations


@dataclass
class Order:
    id: int


def bare(messages):  # type: ignore[no-untyped-def]
    """Nothing."""


def batch(messages: grete.Messages) -> None:
    """Nothing."""


def one(message: grete.Message) -> None:
    """Nothing."""


def payload(order: Order) -> None:
    """Nothing."""


async def later_batch(messages: grete.Messages) -> None:
    """Nothing."""


async def later_one(message: grete.Message) -> None:
    """Nothing."""


async def later_payload(order: Order) -> None:
    """Nothing."""


def anything(messages: Any) -> None:
    """Nothing."""


def perhaps(order: Order | None) -> None:
    """Nothing."""


def old_perhaps(order: Optional[Order]) -> None:  # noqa: UP045
    """Nothing."""


def perhaps_messages(messages: grete.Messages | None) -> None:
    """Nothing."""


def annotated(order: Annotated[Order, "as billed"]) -> None:
    """Nothing."""


def annotated_message(message: Annotated["grete.Message", 3]) -> None:
    """Nothing."""


def with_default(message: grete.Message, dry: bool = False) -> None:
    """Nothing."""


def others_unresolved(message: grete.Message, clock: "Clock | None" = None) -> "Nowhere":  # type: ignore[name-defined]  # noqa: F821
    """Nothing."""


def rest(*messages: int) -> None:
    """Nothing."""


def two(store: dict[str, int], message: grete.Message) -> None:
    """Nothing."""


async def later_two(message: grete.Message, store: dict[str, int]) -> None:
    """Nothing."""


def wrapped(function: Callable[[grete.Message], None]) -> Callable[[grete.Message], None]:
    @functools.wraps(function)
    def inner(*arguments: Any) -> None:
        function(*arguments)

    return inner


class Service:
    def take(self, message: grete.Message) -> None:
        """Nothing."""

    async def later(self, order: Order) -> None:
        """Nothing."""

    @staticmethod
    def still(order: Order) -> None:
        """Nothing."""

    @classmethod
    def all(cls, messages: grete.Messages) -> None:
        """Nothing."""

    def __call__(self, message: grete.Message) -> None:
        """Nothing."""


class LaterService:
    async def __call__(self, order: Order) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("handler", "shape"),
    [
        (bare, HandlerSignature("bare", "messages", False)),
        (batch, HandlerSignature("batch", "messages", False)),
        (one, HandlerSignature("one", "message", False)),
        (payload, HandlerSignature("payload", "payload", False, Order)),
        (later_batch, HandlerSignature("later_batch", "messages", True)),
        (later_one, HandlerSignature("later_one", "message", True)),
        (later_payload, HandlerSignature("later_payload", "payload", True, Order)),
        (anything, HandlerSignature("anything", "messages", False)),
        (perhaps, HandlerSignature("perhaps", "payload", False, Order | None)),
        (old_perhaps, HandlerSignature("old_perhaps", "payload", False, Order | None)),
        (perhaps_messages, HandlerSignature("perhaps_messages", "messages", False)),
        (annotated, HandlerSignature("annotated", "payload", False, Annotated[Order, "as billed"])),
        (annotated_message, HandlerSignature("annotated_message", "message", False)),
        (with_default, HandlerSignature("with_default", "message", False)),
        (others_unresolved, HandlerSignature("others_unresolved", "message", False)),
        (rest, HandlerSignature("rest", "messages", False)),
        (functools.partial(two, {}), HandlerSignature("two", "message", False)),
        (functools.partial(later_two, store={}), HandlerSignature("later_two", "message", True)),
        (functools.partial(functools.partial(two), {}), HandlerSignature("two", "message", False)),
        (wrapped(one), HandlerSignature("one", "message", False)),
        (Service().take, HandlerSignature("Service.take", "message", False)),
        (Service().later, HandlerSignature("Service.later", "payload", True, Order)),
        (functools.partial(Service().later), HandlerSignature("Service.later", "payload", True, Order)),
        (Service.still, HandlerSignature("Service.still", "payload", False, Order)),
        (Service.all, HandlerSignature("Service.all", "messages", False)),
        (staticmethod(later_one), HandlerSignature("later_one", "message", True)),
        (Service(), HandlerSignature("Service", "message", False)),
        (LaterService(), HandlerSignature("LaterService", "payload", True, Order)),
        (functools.partial(LaterService()), HandlerSignature("LaterService", "payload", True, Order)),
        (string_annotations.batch, HandlerSignature("batch", "messages", False)),
        (string_annotations.later_one, HandlerSignature("later_one", "message", True)),
        (string_annotations.payload, HandlerSignature("payload", "payload", False, string_annotations.Order)),
        (
            string_annotations.annotated,
            HandlerSignature("annotated", "payload", False, Annotated[string_annotations.Order, "as billed"] | None),
        ),
        (print, HandlerSignature("print", "messages", False)),
        (lambda messages: None, HandlerSignature("<lambda>", "messages", False)),
    ],
)
def test_functions(handler: Any, shape: HandlerSignature) -> None:
    assert signatures.inspect_handler(handler, {}) == shape


def test_annotations_may_name_what_is_local_at_the_declaration() -> None:
    app = grete.App("a")

    @dataclass
    class Local:
        id: int

    @app.consumer("orders")
    def take(order: "Local | None") -> None:
        """Nothing."""

    decoders = app.routes[0].decoders()
    assert decoders is not None
    assert decoders["orders"](b'{"id":3}') == Local(3)


class Plain(grete.Consumer):
    def consume(self) -> None:
        """Nothing."""


class Later(grete.Consumer):
    async def initialize(self) -> None:
        """Nothing."""

    async def consume(self) -> None:
        """Nothing."""

    def revoked(self) -> None:
        """Nothing."""


class Heir(Later):
    async def tick(self) -> None:
        """Nothing."""

    def eof(self) -> None:
        """Nothing."""


class Static(grete.Consumer):
    @staticmethod
    def consume() -> None:
        """Nothing."""

    @classmethod
    def tick(cls) -> None:
        """Nothing."""


@pytest.mark.parametrize(
    ("handler", "shape"),
    [
        (Plain, HandlerSignature("Plain.consume", "class", False)),
        (Later, HandlerSignature("Later.consume", "class", True)),
        (Heir, HandlerSignature("Heir.consume", "class", True, eof=True, tick=True)),
        (Static, HandlerSignature("Static.consume", "class", False, tick=True)),
    ],
)
def test_classes(handler: type, shape: HandlerSignature) -> None:
    assert signatures.inspect_handler(handler, {}) == shape


def no_argument() -> None:
    """Nothing."""


def keyword_only(*, messages: grete.Messages) -> None:
    """Nothing."""


def listed(messages: list[grete.Message]) -> None:
    """Nothing."""


def sequence(messages: Sequence[grete.Message]) -> None:
    """Nothing."""


def either(x: grete.Message | grete.Messages) -> None:
    """Nothing."""


def nothing(x: None) -> None:
    """Nothing."""


def consumer(x: grete.Consumer) -> None:
    """Nothing."""


def missing(order: "Missing") -> None:  # type: ignore[name-defined]  # noqa: F821
    """Nothing."""


T = typing.TypeVar("T")


def generic(order: T) -> T:
    return order


def generator(messages: grete.Messages) -> Iterator[int]:
    yield len(messages)


async def async_generator(messages: grete.Messages) -> AsyncIterator[int]:
    yield len(messages)


class Bare(grete.Consumer):
    pass


class Arguments(grete.Consumer):
    def consume(self, messages: grete.Messages) -> None:  # type: ignore[override]
        """Nothing."""


class NoSelf(grete.Consumer):
    def consume() -> None:  # type: ignore[misc]
        """Nothing."""


class Interval(Plain):
    tick = "10s"  # type: ignore[assignment]


class Yields(grete.Consumer):
    def consume(self) -> Iterator[int]:  # type: ignore[override]
        yield 1


class AsyncHook(Plain):
    async def revoked(self) -> None:
        """Nothing."""


class TickTakes(Plain):
    def tick(self, now: float) -> None:  # type: ignore[override]
        """Nothing."""


@pytest.mark.parametrize(
    ("handler", "says"),
    [
        (
            no_argument,
            r"consumer no_argument: a function consumer takes grete\.Messages, .* its signature is \(\) -> None",
        ),
        (listed, r"messages is list\[.*Message\]: a function takes grete\.Messages \(a batch"),
        (sequence, r"a function takes grete\.Messages \(a batch"),
        (either, r"a function takes grete\.Messages \(a batch"),
        (nothing, "x is NoneType, which no message is"),
        (consumer, r"take grete\.Messages; a function has no consumer"),
        (missing, "annotation of order cannot be resolved: name 'Missing' is not defined; import what it names at run"),
        (generic, "order is the type variable ~T: name the type"),
        (classmethod(bare), "a consumer is a class or a function"),
        ("orders", "a consumer is a class or a function, not 'orders'"),
        (Bare, r"consumer Bare has no consume method: define consume\(self\)"),
        (Order, r"derives from grete\.Consumer: class Order\(grete\.Consumer\)"),
        (Arguments, r"Arguments\.consume is called without arguments.*'messages'; the messages are in self\.messages"),
        (NoSelf, r"NoSelf\.consume is called without arguments"),
        (Interval, r"Interval\.tick is a str, not a method"),
        (Yields, r"Yields\.consume has a yield in it"),
        (AsyncHook, "revoked is async def, but consume is a plain def"),
        (TickTakes, r"TickTakes\.tick is called without arguments, but its signature says: .*'now'$"),
    ],
)
def test_what_cannot_be_called_is_refused(handler: Any, says: str) -> None:
    with pytest.raises(grete.ConfigError, match=says):
        signatures.inspect_handler(handler, {})
