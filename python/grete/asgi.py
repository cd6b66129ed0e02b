"""ASGI lifespan that runs an App as long as an ASGI application lives.

```
api = FastAPI(lifespan=grete.asgi.lifespan(app))
api = Starlette(routes=..., lifespan=grete.asgi.lifespan(app, around=database))
api = Litestar(..., lifespan=[grete.asgi.lifespan(app)])
```
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from grete.app import App
from grete.errors import GreteError

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: App, around: Lifespan | None = None) -> Lifespan:
    """Returns a lifespan for `lifespan=` of Starlette, FastAPI, Litestar and similar frameworks.

    The App starts before the server takes its first request, and stops when the server has answered its last one:
    handlers finish, offsets are committed, within `shutdown_timeout`. Errors are raised, so that the server reports
    them. `around` is the application's own lifespan: its resources exist before the first record arrives and after the
    last one. The value it yields (state for requests) is passed on.
    """

    @asynccontextmanager
    async def app_lifespan(asgi_app: Any) -> AsyncIterator[Any]:
        if around is None:
            async with app.running():
                yield None
        else:
            async with around(asgi_app) as state, app.running():
                yield state

    return app_lifespan


def producer(app: App) -> Callable[[], Awaitable[Any]]:
    """Returns a dependency for requests: the producer of the running App.

    ```
    Kafka = Annotated[Any, Depends(grete.asgi.producer(app))]  # FastAPI
    Litestar(..., dependencies={"kafka": Provide(grete.asgi.producer(app))})
    ```

    `await kafka.send(topic, value)` returns when the broker has written the record. The App closes the producer at its
    stop, after the last request. A request outside of the App's lifespan raises GreteError.
    """

    async def get_producer() -> Any:
        runner = app._current_runner()  # noqa: SLF001
        if runner is None:
            raise GreteError(
                f'App "{app.name}" does not run, and its producer works while it runs: give '
                "lifespan=grete.asgi.lifespan(app) to the application"
            )
        shared = getattr(app, "producer", None)
        return runner.producer() if shared is None else shared

    return get_producer
