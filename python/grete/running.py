"""A block in which an App runs."""

from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from grete.app import App


class Running:
    """`App.running()`: a block in which the App runs."""

    def __init__(self, app: "App") -> None:
        self._app = app

    def __enter__(self) -> "App":
        self._app.start()
        return self._app

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            self._app.stop()
        except Exception:
            if kind is None:
                raise  # else the block's own error goes first; this one is in the log and in `error`

    async def __aenter__(self) -> "App":
        # Whoever has a loop has imported asyncio; importing grete does not.
        import asyncio

        await asyncio.to_thread(self._app.start)
        return self._app

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        # A thread of its own: stopping waits for handlers, and they may need the loop.
        await asyncio.to_thread(self.__exit__, kind, value, traceback)
