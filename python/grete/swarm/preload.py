"""What is loaded once, before the fork, so that all nodes share it: `@app.preload`."""

import gc
import inspect
import logging
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grete._place import PACKAGE
from grete.errors import ConfigError, PreloadError
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell

logger = logging.getLogger("grete")


@dataclass(frozen=True, slots=True)
class Preload:
    """A function that runs before the fork. `location`: "file:line" of its declaration."""

    function: Callable[[], object]
    name: str
    location: str

    def __str__(self) -> str:
        return f"preload {self.name} ({self.location})" if self.location else f"preload {self.name}"


def declare(function: Any, location: str) -> Preload:
    """A checked declaration. ConfigError says what is wrong and what would do."""
    if not callable(function):
        raise ConfigError(f"@app.preload stands before a function, without parentheses, not {function!r}")
    name: str = getattr(function, "__qualname__", type(function).__qualname__)
    called = function if inspect.isroutine(function) else getattr(function, "__call__", function)  # noqa: B004
    if inspect.iscoroutinefunction(called) or inspect.isasyncgenfunction(called):
        raise ConfigError(
            f"preload {name} is async, and no event loop runs before the fork: make it a plain def, "
            "or call asyncio.run(...) in it"
        )
    if inspect.isgeneratorfunction(called):
        raise ConfigError(f"preload {name} has a yield: nobody would run what is in it; make it a plain function")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(f"preload {name} is called without arguments: {error}") from None
    except ValueError:
        pass  # a builtin that does not tell its signature
    return Preload(function, name, location)


class Preloads:
    """An App's, in the order of their declarations."""

    def __init__(self) -> None:
        self._all: list[Preload] = []
        self._done = 0

    def add(self, function: object, location: str) -> None:
        """Checks and keeps one. Raises ConfigError."""
        self._all.append(declare(function, location))

    def __len__(self) -> int:
        return len(self._all)

    def run(self, monitor: Monitor | None = None) -> None:
        """Runs those that have not run yet; a forked node has them all behind it.

        PreloadError names the one that failed, with the user's own frames.
        """
        for preload in self._all[self._done :]:
            begin = time.monotonic()
            _call(preload)
            self._done += 1
            seconds, fields = time.monotonic() - begin, {"preload": preload.name}
            tell(monitor, logger, logging.INFO, "app.preloaded", "%s took %.1f s", preload, seconds, fields=fields)


def _call(preload: Preload) -> None:
    try:
        result = preload.function()
    except SystemExit as error:
        raise PreloadError(
            f"{preload} called sys.exit({error.code!r}); one that cannot do its work raises an exception, and the "
            f"process ends with its text\n{_frames(error)}".rstrip()
        ) from error
    except Exception as error:
        text = _frames(error) + "".join(traceback.format_exception_only(error))
        raise PreloadError(f"{preload} failed:\n{text.rstrip()}") from error
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python would say that nobody awaited it
        raise PreloadError(f"{preload} returned an awaitable that nobody would await: call asyncio.run(...) in it")


def freeze() -> None:
    """Takes all objects there are out of the garbage collector's sight, just before the fork.

    A collection in a node would write to each object's header, and copy the page that it shares. Reference counts are
    written all the same, by whoever touches an object: what is read a lot is best one large object (bytes, an array).
    """
    gc.collect()
    gc.freeze()


def _frames(error: BaseException) -> str:
    """The frames below ours."""
    frames = traceback.extract_tb(error.__traceback__)
    return "".join(traceback.format_list([frame for frame in frames if not _ours(frame.filename)]))


def _ours(filename: str) -> bool:
    return os.path.abspath(filename).startswith(PACKAGE)  # noqa: PTH100
