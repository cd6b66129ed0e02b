"""Preparation of the supervisor's memory for the fork: nodes share what is loaded, and need no time for it."""

import contextlib
import gc
import importlib
from collections.abc import Iterable

from grete._lifecycle.hooks import Lifecycle
from grete._routing.routes import Route


def preimport(routes: Iterable[Route], loop: str, hooks: Lifecycle | None = None) -> None:
    """Imports what nodes with these routes and hooks need, if it is installed. `loop`: the setting of that name."""
    for name in ("grete._processing.runner", "grete._processing.engine.running_jobs"):
        importlib.import_module(name)
    if hooks:
        importlib.import_module("grete._processing.lifecycle_run")
        if hooks.is_async:
            importlib.import_module("grete._processing.engine.host_loop")
    if any(route.is_async for route in routes) or (hooks and hooks.is_async):
        importlib.import_module("grete._processing.engine.loop_thread")
        if loop != "asyncio":
            # The run itself raises an error if uvloop is asked for and not installed.
            with contextlib.suppress(ImportError):
                importlib.import_module("uvloop")


def freeze_heap() -> None:
    """Moves all objects out of the garbage collector's generations, just before the fork.

    A collection in a node would write to each object's header, and copy the page that it shares. Reference counts are
    written all the same, by any code that uses an object. So data that is read a lot is best one large object (bytes,
    an array).
    """
    gc.collect()
    gc.freeze()
