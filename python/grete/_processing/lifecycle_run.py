"""Hooks of one run of an App: `lifespan=` and `@app.on_startup` at its start, `@app.on_shutdown` at its stop."""

import asyncio
import contextlib
import functools
import inspect
import logging
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from grete._lifecycle.hooks import Hook, Lifecycle, call_plain, open_lifespan, set_state, startup_error
from grete._lifecycle.preload import user_frames
from grete._process import stacks
from grete._processing.hook_loop import HookLoop, LoopCall
from grete.errors import ConfigError, LifecycleError, ShutdownError
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")

# Seconds for a cancelled hook to end.
_CANCEL_GRACE = 1.0
# Seconds for the thread of the loop to end, after the hooks.
_LOOP_GRACE = 2.0


class _OverdueError(TimeoutError):
    """A hook of the stop did not end in time."""


class LifecycleRun:
    """Runs the hooks once. A plain hook runs in the thread that starts the App, or in one of its own at the stop.

    Asynchronous hooks run on the loop that runs the asynchronous handlers: a host's, or one of the App's own, which
    then exists from before the first hook until after the last one.
    """

    def __init__(
        self,
        hooks: Lifecycle,
        app: object,
        fail: Callable[[BaseException], None],
        *,
        loop_kind: str,
        host_loop: asyncio.AbstractEventLoop | None,
        monitor: Monitor | None = None,
    ) -> None:
        """`app`: for `lifespan=`. `fail` ends the run. `loop_kind`: the setting `loop`."""
        self._hooks = hooks
        self._app = app
        self._fail = fail
        self._emit = functools.partial(log_and_emit, monitor, logger)
        self._loop_kind = loop_kind
        self._host_loop = host_loop
        self._monitor = monitor
        self._own_loop: HookLoop | None = None
        self._lifespan: _LifespanTask | None = None
        self._any_started = False
        self._start_failed = False
        self._thread: threading.Thread | None = None
        self._stop_thread: threading.Thread | None = None
        self._running: Hook | None = None
        self._left: list[Hook] = []
        self.errors: list[ShutdownError] = []
        """Failures of the stop, in order."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop | None:
        """Loop of the asynchronous hooks: the host's, or the App's own while it exists."""
        return self._host_loop or (self._own_loop.loop if self._own_loop is not None else None)

    @property
    def loop_title(self) -> str | None:
        """Title of `loop` if it is the App's own; None: it is a host's."""
        return self._own_loop.title if self._own_loop is not None else None

    def owns(self, thread: threading.Thread) -> bool:
        """Returns whether the end of the run waits for this thread, the caller's, because it runs a hook."""
        return thread in (self._thread, self._stop_thread) or (
            self._own_loop is not None and self._own_loop.owns(thread)
        )

    # Start

    def start(self, stopping: Callable[[], bool], wait: Callable[[LoopCall], None], wake: Callable[[], None]) -> None:
        """Runs the hooks of the start, until a stop begins. Raises StartupError.

        `wait` waits for a call on the loop, and cancels it when a stop begins; `wake` makes it check the call.
        """
        self._thread = threading.current_thread()
        try:
            self._open_loop()
            for hook in (*([self._hooks.lifespan] if self._hooks.lifespan else ()), *self._hooks.startup):
                if stopping():
                    return
                begin = time.monotonic()
                try:
                    if not self._run_startup(hook, stopping, wait, wake):
                        return
                except BaseException:
                    self._start_failed = True
                    raise
                self._any_started = True
                self._log_ran(hook, begin)
            self._any_started = True  # also without a hook of the start
        finally:
            self._thread = None

    def _open_loop(self) -> None:
        if not self._hooks.is_async:
            return
        if self._host_loop is None:
            self._own_loop = HookLoop(self._loop_kind, self._monitor)
            self._own_loop.start()
        elif _is_running_here(self._host_loop):
            raise ConfigError(
                'async hooks run on the loop that starts the App (loop="host"), and app.start() blocks that loop: use '
                "`async with app.running()` or grete.asgi.lifespan",
                setting="loop",
            )

    def _run_startup(
        self, hook: Hook, stopping: Callable[[], bool], wait: Callable[[LoopCall], None], wake: Callable[[], None]
    ) -> bool:
        """Runs one hook. Returns whether it ended: False if a stop has cancelled it."""
        try:
            if not hook.is_async:
                call_plain(hook)
                return True
            if hook.kind == "lifespan":
                self._lifespan = lifespan = _LifespanTask(hook, self._app, self._on_lifespan_end)
                call = self._call(lifespan.enter(), wake)
            else:
                call = self._call(hook.function(), wake)
            wait(call)
            if not call.ended.is_set():
                text = "%s was cancelled by the stop and does not end; the stop goes on beside it"
                self._emit(logging.ERROR, "app.hook_unfinished", text, hook, fields=self._fields(hook))
                return False
            value = call.result()
            if hook.kind == "lifespan":
                set_state(self._hooks.state, value)
            return True
        except asyncio.CancelledError as error:
            if stopping():
                return False
            raise startup_error(hook, error) from error
        except (Exception, SystemExit) as error:
            raise startup_error(hook, error) from error

    def _on_lifespan_end(self, hook: Hook, error: BaseException | None) -> None:
        """Ends the run: what the lifespan has opened is closed, and handlers need it."""
        text = f"{hook} ended while the App ran"
        if error is not None:
            text += f":\n{user_frames(error)}{''.join(traceback.format_exception_only(error))}".rstrip()
        failure = LifecycleError(text, hook=hook.name, location=hook.location)
        failure.__cause__ = error
        self._fail(failure)

    # Stop

    def begin_stop(
        self,
        before: Callable[[], None],
        on_exit: Callable[[threading.Thread], None],
        limit: Callable[[], float],
        start_thread: Callable[[Callable[[], None], str], threading.Thread],
    ) -> threading.Thread:
        """Begins the hooks of the stop in a thread, which is returned. Errors are logged, and in `errors`.

        The thread first calls `before`, and `on_exit` at its end. `limit`: seconds that are left for asynchronous
        hooks. `start_thread` returns a thread that runs the function, under the name.
        """
        stops = list(reversed(self._hooks.shutdown)) if self._any_started else []
        lifespan = self._lifespan
        if lifespan is not None and lifespan.is_entered:
            stops.append(lifespan.hook)
        self._left = stops

        def run() -> None:
            self._stop_thread = threading.current_thread()
            try:
                before()
                self._run_stop(limit)
            finally:
                on_exit(threading.current_thread())

        return start_thread(run, "grete-lifecycle")

    def _run_stop(self, limit: Callable[[], float]) -> None:
        while self._left:
            self._running = hook = self._left.pop(0)
            begin = time.monotonic()
            try:
                self._run_shutdown(hook, limit)
            except BaseException as error:
                self._on_error(hook, error)
            else:
                self._log_ran(hook, begin)
            self._running = None
        if self._own_loop is not None:
            self._own_loop.end(_LOOP_GRACE)

    def _run_shutdown(self, hook: Hook, limit: Callable[[], float]) -> None:
        if not hook.is_async:
            call_plain(hook)
            return
        lifespan = self._lifespan
        is_lifespan = lifespan is not None and hook.kind == "lifespan"
        call = self._call(lifespan.exit() if lifespan is not None and is_lifespan else hook.function(), lambda: None)
        left = limit()
        if not call.ended.wait(left):
            call.cancel()
            if not call.ended.wait(_CANCEL_GRACE):
                raise _OverdueError(
                    f"it did not end within {left:.1f} s, the rest of shutdown_timeout, nor when cancelled"
                )
            with contextlib.suppress(BaseException):
                call.result()
            raise _OverdueError(f"it did not end within {left:.1f} s, the rest of shutdown_timeout, and was cancelled")
        call.result()

    def _on_error(self, hook: Hook, error: BaseException) -> None:
        reason = str(error) if isinstance(error, _OverdueError) else "".join(traceback.format_exception_only(error))
        text = f"{hook} failed: {reason.rstrip()}"
        if self._start_failed:
            text += ". The start had failed before, perhaps before what this function needs was there"
        failure = ShutdownError(text, hook=hook.name, location=hook.location)
        failure.__cause__ = error
        self.errors.append(failure)
        level = logging.WARNING if self._start_failed else logging.ERROR
        self._emit(
            level, "app.hook_failed", "%s", text, fields=self._fields(hook), error=error,
            traceback=not self._start_failed and bool(user_frames(error)),
        )  # fmt: skip

    def log_unfinished(self) -> None:
        """Logs the hook that has not ended when the time of the handlers was up."""
        if (hook := self._running) is not None:
            self._emit(
                logging.ERROR,
                "app.hook_unfinished",
                "%s does not end; the stop goes on beside it%s",
                hook,
                self._stack(),
                fields=self._fields(hook),
            )

    def describe_unfinished(self) -> list[str]:
        """Describes the hook that has not ended, and those that have not run because of it."""
        hook = self._running
        texts = [f"{hook} runs{self._stack()}"] if hook is not None else []
        return texts + [f"{hook} has not run" for hook in self._left]

    def skip(self) -> None:
        """Leaves the hooks of the stop out, because handlers still run. Logs that."""
        stops = [*reversed(self._hooks.shutdown), *([self._hooks.lifespan] if self._lifespan is not None else ())]
        if stops and self._any_started:
            names = ", ".join(str(hook) for hook in stops)
            self._emit(
                logging.ERROR,
                "app.hooks_skipped",
                "handlers still run, and need what these functions would close, which were not called: %s",
                names,
                fields={"hooks": [hook.name for hook in stops]},
            )
        if self._own_loop is not None:
            self._own_loop.end(0.0)

    # Both

    def _call(self, coroutine: Any, wake: Callable[[], None]) -> LoopCall:
        if not inspect.iscoroutine(coroutine):
            coroutine = _await(coroutine)
        loop = self.loop
        if loop is None:
            coroutine.close()
            raise RuntimeError("its event loop has never run")
        return LoopCall(loop, coroutine, wake)

    def _stack(self) -> str:
        thread = self._stop_thread
        if thread is None or thread.ident is None:
            return ""
        return "".join(f"\n{frames}" for frames in stacks.of_threads([thread.ident]).values())

    def _log_ran(self, hook: Hook, begin: float) -> None:
        seconds = time.monotonic() - begin
        fields = self._fields(hook) | {"time": seconds}
        self._emit(logging.INFO, "app.hook_ran", "%s took %.1f s", hook, seconds, fields=fields)

    def _fields(self, hook: Hook) -> dict[str, object]:
        return {"hook": hook.name, "kind": hook.kind}


class _LifespanTask:
    """One task enters and leaves the context manager, because task groups and timeouts demand that."""

    def __init__(self, hook: Hook, app: object, on_early_end: Callable[[Hook, BaseException | None], None]) -> None:
        self.hook = hook
        self.is_entered = False
        self._app = app
        self._on_early_end = on_early_end
        self._task: asyncio.Task[None] | None = None
        self._leave: asyncio.Event | None = None

    async def enter(self) -> Any:
        """Returns what the context manager yields."""
        self._leave = asyncio.Event()
        entered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._task = task = asyncio.create_task(self._run(entered, self._leave), name="grete-lifespan")
        try:
            await asyncio.wait([entered, task], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        if not entered.done():
            task.result()  # raises what the context manager has raised
            raise RuntimeError("it has swallowed an exception before its yield")
        self.is_entered = True
        task.add_done_callback(self._on_done)
        return entered.result()

    async def exit(self) -> None:
        """Leaves the context manager. Raises what it raises."""
        task, leave = self._task, self._leave
        assert task is not None
        assert leave is not None
        self.is_entered = False
        leave.set()
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            await _cancel(task)
            raise
        task.result()

    async def _run(self, entered: "asyncio.Future[Any]", leave: asyncio.Event) -> None:
        async with open_lifespan(self.hook, self._app) as value:
            entered.set_result(value)
            await leave.wait()

    def _on_done(self, task: "asyncio.Task[None]") -> None:
        if self.is_entered:
            self.is_entered = False
            self._on_early_end(self.hook, None if task.cancelled() else task.exception())


async def _cancel(task: "asyncio.Task[Any]") -> None:
    task.cancel()
    await asyncio.wait([task])
    if not task.cancelled():
        task.exception()  # or asyncio would log that no caller has asked for it


async def _await(awaitable: Any) -> Any:
    return await awaitable


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False
