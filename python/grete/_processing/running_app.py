"""Context manager in whose block an App runs."""

from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import asyncio

    from grete.app import App


class RunningApp:
    """Context manager of `App.running()`: the App runs inside the block."""

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
                raise  # else the block's own error has precedence; this one is in the log and in `error`

    async def __aenter__(self) -> "App":
        # A caller with an event loop has imported asyncio; importing grete does not.
        import asyncio

        loop = asyncio.get_running_loop()
        starting = _run_in_thread(self._app._start_in_background, loop)  # noqa: SLF001
        try:
            await asyncio.shield(starting)
        except asyncio.CancelledError:
            # The stop cancels a hook of the start that runs on this loop. Before the run exists it does nothing.
            await asyncio.wait([starting, _run_in_thread(self._app.stop)])
            if starting.exception() is None:
                await _run_in_thread(self._app.stop)
            raise
        return self._app

    async def __aexit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        import asyncio

        # Stopping waits for handlers, and they may need the loop. The stop goes on when this task is cancelled.
        await asyncio.shield(_run_in_thread(self.__exit__, kind, value, traceback))


def _run_in_thread(function: Callable[..., None], *args: object) -> "asyncio.Future[None]":
    """Calls the function in its own thread, with the caller's context.

    The loop's default executor may be full of tasks that wait for the App.
    """
    import asyncio
    import contextvars
    from concurrent.futures import ThreadPoolExecutor

    executor = ThreadPoolExecutor(1, thread_name_prefix="grete-running")
    try:
        context = contextvars.copy_context()
        return asyncio.get_running_loop().run_in_executor(executor, context.run, function, *args)
    finally:
        executor.shutdown(wait=False)
