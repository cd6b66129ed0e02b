"""Providers that clean up: generators around one call, and values that live as long as the process runs handlers."""

import logging
import threading
from collections.abc import AsyncIterator, Iterator, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any

from grete._routing.arguments import Provider
from grete.errors import GreteError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

if TYPE_CHECKING:
    import asyncio

    from grete.app import App

logger = logging.getLogger("grete")


class GeneratorScope:
    """Context manager around a generator with one `yield`.

    Other than with `contextlib.contextmanager`, a generator that catches the error of the block does not end it: no
    record counts as processed because its provider has logged the failure.
    """

    __slots__ = ("_generator",)

    def __init__(self, generator: Iterator[Any]) -> None:
        self._generator: Any = generator

    def __enter__(self) -> Any:
        try:
            return next(self._generator)
        except StopIteration:
            raise _no_yield(self._generator) from None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                next(self._generator)
            else:
                self._generator.throw(error)
        except StopIteration:
            return
        except BaseException as raised:
            if raised is error:
                return  # it propagates anyway
            raise
        self._generator.close()
        raise _second_yield(self._generator)


class AsyncGeneratorScope:
    """Context manager around an asynchronous generator: see `GeneratorScope`."""

    __slots__ = ("_generator",)

    def __init__(self, generator: AsyncIterator[Any]) -> None:
        self._generator: Any = generator

    async def __aenter__(self) -> Any:
        try:
            return await anext(self._generator)
        except StopAsyncIteration:
            raise _no_yield(self._generator) from None

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is None:
                await anext(self._generator)
            else:
                await self._generator.athrow(error)
        except StopAsyncIteration:
            return
        except BaseException as raised:
            if raised is error:
                return
            raise
        await self._generator.aclose()
        raise _second_yield(self._generator)


def _no_yield(generator: Any) -> GreteError:
    return GreteError(f"provider {_name(generator)} ended without a yield: it yields its value once")


def _second_yield(generator: Any) -> GreteError:
    return GreteError(f"provider {_name(generator)} yields a second time: it yields its value once")


def _name(generator: Any) -> str:
    return str(getattr(generator, "__qualname__", type(generator).__qualname__))


class ProcessProviders:
    """Values of providers with the scope "process", made once for one run of an App. Thread-safe."""

    def __init__(self, monitor: Monitor | None = None) -> None:
        self._monitor = monitor
        self._lock = threading.Lock()
        self._async_lock: asyncio.Lock | None = None
        self._values: dict[tuple[Any, str], Any] = {}
        # Open scopes, in the order in which they were opened.
        self._open: list[tuple[str, GeneratorScope | AsyncGeneratorScope]] = []

    def get(self, needed: tuple[Provider, ...], app: "App | None") -> Mapping[Provider, Any]:
        """Returns the values of providers that need no event loop; `needed` has those first that others need."""
        with self._lock:
            for provider in needed:
                if _key(provider) not in self._values:
                    self._values[_key(provider)] = self._make(provider, app)
            return self._known(needed)

    async def get_async(self, needed: tuple[Provider, ...], app: "App | None") -> Mapping[Provider, Any]:
        """Returns the values of providers, for handlers of the event loop."""
        import asyncio

        if self._async_lock is None:
            self._async_lock = asyncio.Lock()  # on the loop's thread only
        async with self._async_lock:
            for provider in needed:
                if _key(provider) in self._values:
                    continue
                if provider.is_async:
                    self._values[_key(provider)] = await self._make_async(provider, app)
                else:
                    self.get((provider,), app)
            return self._known(needed)

    def _known(self, needed: tuple[Provider, ...]) -> dict[Provider, Any]:
        return {provider: self._values[_key(provider)] for provider in needed}

    def _call(self, provider: Provider, app: "App | None") -> Any:
        positional: list[Any] = []
        named: dict[str, Any] = {}
        for argument in provider.arguments:
            value = app if argument.provider is None else self._values[_key(argument.provider)]
            if argument.keyword:
                named[argument.name] = value
            else:
                positional.append(value)
        return provider.function(*positional, **named)

    def _make(self, provider: Provider, app: "App | None") -> Any:
        made = self._call(provider, app)
        if provider.call_kind != "generator":
            return made
        scope = GeneratorScope(made)
        value = scope.__enter__()
        self._open.append((provider.name, scope))
        return value

    async def _make_async(self, provider: Provider, app: "App | None") -> Any:
        made = self._call(provider, app)
        if provider.call_kind == "coroutine":
            return await made
        scope = AsyncGeneratorScope(made)
        value = await scope.__aenter__()
        self._open.append((provider.name, scope))
        return value

    async def close_async(self) -> None:
        """Ends the asynchronous providers, the last one first, on their event loop. Their errors are logged."""
        for name, scope in reversed(self._open):
            if isinstance(scope, AsyncGeneratorScope):
                try:
                    await scope.__aexit__(None, None, None)
                except Exception as error:
                    self._log(name, error)
        self._open = [(name, scope) for name, scope in self._open if isinstance(scope, GeneratorScope)]

    def close(self) -> None:
        """Ends the other providers, the last one first. Their errors are logged."""
        with self._lock:
            ended, self._open = self._open, []
            self._values.clear()
        for name, scope in reversed(ended):
            if isinstance(scope, GeneratorScope):
                try:
                    scope.__exit__(None, None, None)
                except Exception as error:
                    self._log(name, error)

    def _log(self, name: str, error: Exception) -> None:
        text = "provider %s has failed at its end: %s: %s"
        log_and_emit(
            self._monitor,
            logger,
            logging.ERROR,
            "provider.failed",
            text,
            name,
            type(error).__name__,
            error,
            fields={"provider": name},
            error=error,
        )


def _key(provider: Provider) -> tuple[Any, str]:
    return provider.function, provider.scope
