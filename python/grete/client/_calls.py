"""Awaitable twins of calls that wait. Each runs in a thread of its client, so that the event loop goes on."""

import functools
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

# More calls than that wait for a thread. Calls of one client are requests to a few brokers.
_MAX_THREADS = 8


class CallThreads:
    """Threads of one client for calls that wait, started when they are needed, at most 8."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._executor: ThreadPoolExecutor | None = None

    async def run(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Runs the function in a thread, and returns its result. A cancelled wait does not end the function."""
        # A caller with an event loop has imported asyncio; importing grete does not.
        import asyncio
        import contextvars

        call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        return await asyncio.get_running_loop().run_in_executor(self._threads(), call)

    def start(self, function: Callable[[], Any]) -> None:
        """Runs the function in a thread, and returns at once."""
        self._threads().submit(function)

    def close(self) -> None:
        """Ends the threads when their calls have ended. A later call starts threads again."""
        with self._lock:
            executor, self._executor = self._executor, None
        if executor is not None:
            executor.shutdown(wait=False)

    def _threads(self) -> "ThreadPoolExecutor":
        from concurrent.futures import ThreadPoolExecutor

        with self._lock:
            if self._executor is None:
                self._executor = ThreadPoolExecutor(_MAX_THREADS, thread_name_prefix=self._name)
            return self._executor


class HasCallThreads(Protocol):
    """Client with threads for its calls."""

    _calls: CallThreads


C = TypeVar("C", bound=HasCallThreads)
P = ParamSpec("P")
T = TypeVar("T")


def awaitable(method: Callable[Concatenate[C, P], T]) -> Callable[Concatenate[C, P], Coroutine[Any, Any, T]]:
    """Returns a coroutine function that runs the method in a thread of its client.

    A cancelled wait does not take back the request: it may still take effect.
    """

    async def call(client: C, /, *args: P.args, **kwargs: P.kwargs) -> T:
        result: T = await client._calls.run(method, client, *args, **kwargs)  # noqa: SLF001
        return result

    name = f"{method.__name__}_async"
    call.__name__, call.__qualname__ = name, f"{method.__qualname__}_async"
    call.__doc__ = f"Awaits `{method.__name__}`, which runs in a thread. A cancelled wait does not take it back."
    call.__annotations__ = method.__annotations__
    call.__wrapped__ = method  # type: ignore[attr-defined]
    return call
