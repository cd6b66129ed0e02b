"""Annotations by which a handler says what else it gets, beside its payload or message."""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from grete._process import callsite
from grete.errors import ConfigError

if TYPE_CHECKING:
    from grete.app import App
    from grete.consumer import Consumer

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Marker:
    """Meaning of an annotation: `kind` is what the parameter gets."""

    kind: str


Key = Annotated[T, Marker("key")]
"""Key of the record, decoded: `key: grete.Key[str]`. A record without a key needs `grete.Key[str | None]`."""

Headers = Annotated[tuple[tuple[str, bytes | None], ...], Marker("headers")]
"""Headers of the record, in their order."""

Offset = Annotated[int, Marker("offset")]
"""Offset of the record."""

Attempt = Annotated[int, Marker("attempt")]
"""Number of the run over this record (in a batch: over its first unmarked record), from 1."""

Batch = Annotated[list[T], Marker("batch")]
"""Payloads of all records of one call: `orders: grete.Batch[Order]` is a `list[Order]`."""


@dataclass(frozen=True, slots=True)
class Depends:
    """Provider of a parameter: `pool: Annotated[Pool, grete.Depends(get_pool)]`.

    The function may be `def` or `async def`, and may name what it gets, as a handler does. Code after its `yield` runs
    at the end of the scope, and sees the exception that has ended it.

    Attributes:
        function: makes the value.
        scope: "call": once for each call of the handler, before its record is marked. "process": once for each process,
            when the first handler that needs it is set up; it ends when the App stops.
    """

    function: Callable[..., Awaitable[Any] | AsyncIterator[Any] | Iterator[Any] | Any]
    scope: Literal["call", "process"] = "call"

    def __post_init__(self) -> None:
        given: Any = self.function
        if not callable(given):
            self._refuse(f"it takes a function that makes the value, not {given!r}")
        if self.scope not in ("call", "process"):
            self._refuse(f'scope is "call" or "process", not {self.scope!r}')

    def _refuse(self, why: str) -> None:
        name = getattr(self.function, "__qualname__", type(self.function).__qualname__)
        raise ConfigError(f"Depends({name}): {why}", setting="Depends", location=callsite.caller_location())


class Context:
    """Circumstances of a call, for handlers that are functions: `context: grete.Context`."""

    __slots__ = ("_consumer", "app")

    def __init__(self, consumer: "Consumer", app: "App") -> None:
        self._consumer = consumer
        self.app = app
        """App that runs the handler."""

    @property
    def state(self) -> Any:
        """State of the App: `app.state`."""
        return getattr(self.app, "state")  # noqa: B009

    @property
    def topic(self) -> str:
        """Topic of the records."""
        return self._consumer.topic

    @property
    def partition(self) -> int:
        """Partition of the records."""
        return self._consumer.partition

    @property
    def attempt(self) -> int:
        """Number of the run over the first unmarked record of the batch, from 1."""
        return self._consumer.attempt

    @property
    def leaving(self) -> bool:
        """Whether the partition is being revoked, or the App stops: see `Consumer.leaving`."""
        return self._consumer.leaving

    def pause(self, seconds: float | str | None = None) -> None:
        """Pauses the partition: see `Consumer.pause`."""
        self._consumer.pause(seconds)

    def resume(self) -> None:
        """Ends a pause: see `Consumer.resume`."""
        self._consumer.resume()
