"""What a node's run imports: done once, before the fork, it is shared and takes no time in the nodes."""

import contextlib
import importlib
from collections.abc import Iterable

from grete.routes import Route


def ahead(routes: Iterable[Route], loop: str) -> None:
    """Imports what nodes with these routes will, as far as it is there. `loop`: the setting of that name."""
    for name in ("grete.processing.runner", "grete.processing.running"):
        importlib.import_module(name)
    if any(route.is_async for route in routes):
        importlib.import_module("grete.processing.loop")
        if loop != "asyncio":
            # Whoever asked for it and has not installed it is told by the run.
            with contextlib.suppress(ImportError):
                importlib.import_module("uvloop")
