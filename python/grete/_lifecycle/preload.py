"""`@app.preload`: functions that run once, before the fork, so that all nodes share what they load."""

import inspect
import logging
import os
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from grete._process.callsite import PACKAGE
from grete.errors import ConfigError, PreloadError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")


@dataclass(frozen=True, slots=True)
class Preload:
    """A function that runs before the fork. `location`: "file:line" of its declaration."""

    function: Callable[[], object]
    name: str
    location: str

    def __str__(self) -> str:
        return f"preload {self.name} ({self.location})" if self.location else f"preload {self.name}"


def make_preload(function: Any, location: str) -> Preload:
    """Checks a declaration. ConfigError says what is wrong, and the cure."""
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
        raise ConfigError(f"preload {name} has a yield: its body would never run; make it a plain function")
    try:
        inspect.signature(function).bind()
    except TypeError as error:
        raise ConfigError(f"preload {name} is called without arguments: {error}") from None
    except ValueError:
        pass  # a builtin without a signature
    return Preload(function, name, location)


class Preloads:
    """Preloads of an App, in the order of their declarations."""

    def __init__(self) -> None:
        self._all: list[Preload] = []
        self._run_count = 0

    def add(self, function: object, location: str) -> None:
        """Checks and adds a preload. Raises ConfigError."""
        self._all.append(make_preload(function, location))

    def __len__(self) -> int:
        return len(self._all)

    def run(self, monitor: Monitor | None = None) -> None:
        """Runs the preloads that have not run yet; in a forked node, all have.

        PreloadError names the preload that failed, with the user's own frames.
        """
        for preload in self._all[self._run_count :]:
            begin = time.monotonic()
            _run_preload(preload)
            self._run_count += 1
            seconds, fields = time.monotonic() - begin, {"preload": preload.name}
            log_and_emit(
                monitor, logger, logging.INFO, "app.preloaded", "%s took %.1f s", preload, seconds, fields=fields
            )


def _run_preload(preload: Preload) -> None:
    try:
        result = preload.function()
    except SystemExit as error:
        raise PreloadError(
            f"{preload} called sys.exit({error.code!r}); one that cannot do its work raises an exception, and the "
            f"process ends with its text\n{user_frames(error)}".rstrip()
        ) from error
    except Exception as error:
        text = user_frames(error) + "".join(traceback.format_exception_only(error))
        raise PreloadError(f"{preload} failed:\n{text.rstrip()}") from error
    if inspect.isawaitable(result):
        if inspect.iscoroutine(result):
            result.close()  # or Python would warn that it was never awaited
        raise PreloadError(f"{preload} returned an awaitable that is never awaited: call asyncio.run(...) in it")


def user_frames(error: BaseException) -> str:
    """Formats the frames outside of Grete."""
    frames = traceback.extract_tb(error.__traceback__)
    return "".join(traceback.format_list([frame for frame in frames if not _is_internal(frame.filename)]))


def _is_internal(filename: str) -> bool:
    return os.path.abspath(filename).startswith(PACKAGE)  # noqa: PTH100
