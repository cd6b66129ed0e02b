"""App whose hooks of the start and the stop note that they run."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grete
from tests.unit.test_stop import NOWHERE


class Notes:
    """An App whose hooks note that they run, and where."""

    def __init__(self, *, lifespan: bool = True, **settings: Any) -> None:
        self.all: list[str] = []
        self.threads: dict[str, str] = {}
        self.loops: dict[str, asyncio.AbstractEventLoop] = {}
        self.app = app = grete.App("notes", lifespan=self.lifespan if lifespan else None, kafka=NOWHERE, **settings)
        app.on_startup(self.open_first)
        app.on_startup(self.open_second)
        app.on_shutdown(self.close_first)
        app.on_shutdown(self.close_second)

    def note(self, what: str) -> None:
        self.all.append(what)
        self.threads[what] = threading.current_thread().name
        with contextlib.suppress(RuntimeError):
            self.loops[what] = asyncio.get_running_loop()

    @asynccontextmanager
    async def lifespan(self, app: grete.App) -> AsyncIterator[dict[str, Any]]:
        assert app is self.app
        self.note("enter")
        yield {"pool": "open"}
        self.note("leave")

    def open_first(self) -> None:
        self.note("open first")

    async def open_second(self) -> None:
        await asyncio.sleep(0)
        self.note("open second")

    def close_first(self) -> None:
        self.note("close first")

    async def close_second(self) -> None:
        await asyncio.sleep(0)
        self.note("close second")


IN_ORDER = ["enter", "open first", "open second", "close second", "close first", "leave"]
