"""Hooks of an App around one run of `consume`, in the calling thread or on its loop."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeVar

from grete._lifecycle.hooks import Hook, Lifecycle, call_plain, open_lifespan, set_state, startup_error
from grete.errors import ShutdownError

T = TypeVar("T")


async def run_with_hooks(hooks: Lifecycle, app: object, body: Callable[[], Awaitable[T]]) -> T:
    """Runs the hooks of the start, then `body`, then the hooks of the stop. Raises StartupError, ShutdownError.

    Without asynchronous hooks, only `body` may suspend.
    """
    if not hooks:
        return await body()
    if hooks.lifespan is None:
        return await _run(hooks, body, any_started=not hooks.startup)
    async with _lifespan(hooks.lifespan, hooks, app):
        return await _run(hooks, body, any_started=True)


async def _run(hooks: Lifecycle, body: Callable[[], Awaitable[T]], *, any_started: bool) -> T:
    try:
        for hook in hooks.startup:
            try:
                await _call(hook)
            except (Exception, SystemExit) as error:
                raise startup_error(hook, error) from error
            any_started = True
        result = await body()
    except BaseException as error:
        for note in await _shut_down(hooks) if any_started else ():
            error.add_note(str(note))
        raise
    errors = await _shut_down(hooks)
    if errors:
        raise errors[0]
    return result


async def _shut_down(hooks: Lifecycle) -> list[ShutdownError]:
    errors = []
    for hook in reversed(hooks.shutdown):
        try:
            await _call(hook)
        except Exception as error:
            errors.append(_shutdown_error(hook, error))
    return errors


async def _call(hook: Hook) -> None:
    if hook.is_async:
        await hook.function()
    else:
        call_plain(hook)


@asynccontextmanager
async def _lifespan(hook: Hook, hooks: Lifecycle, app: object) -> AsyncIterator[None]:
    try:
        manager = open_lifespan(hook, app)
        value = await manager.__aenter__()
    except (Exception, SystemExit) as error:
        raise startup_error(hook, error) from error
    try:
        try:
            set_state(hooks.state, value)
        except TypeError as error:
            raise startup_error(hook, error) from error
        yield
    finally:
        try:
            await manager.__aexit__(None, None, None)
        except Exception as error:
            raise _shutdown_error(hook, error) from error


def _shutdown_error(hook: Hook, error: Exception) -> ShutdownError:
    failure = ShutdownError(f"{hook} failed: {type(error).__name__}: {error}", hook=hook.name, location=hook.location)
    failure.__cause__ = error
    return failure
