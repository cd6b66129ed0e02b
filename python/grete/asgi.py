"""Runs an App as long as an ASGI application lives.

```
api = FastAPI(lifespan=grete.asgi.lifespan(app))
api = Starlette(routes=..., lifespan=grete.asgi.lifespan(app, around=database))
```
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

from grete.app import App

Lifespan = Callable[[Any], AbstractAsyncContextManager[Any]]


def lifespan(app: App, around: Lifespan | None = None) -> Lifespan:
    """For `lifespan=` of Starlette, FastAPI, Litestar and their kin.

    The App starts before the server takes its first request, and stops when the server has answered its last one:
    handlers finish, offsets are committed, within `shutdown_timeout`. What went wrong is raised, so that the server
    says so. `around` is the application's own lifespan: what it opens is there before the first record comes and after
    the last one; what it yields (state for requests) is passed on.
    """

    @asynccontextmanager
    async def of(asgi_app: Any) -> AsyncIterator[Any]:
        if around is None:
            async with app.running():
                yield None
        else:
            async with around(asgi_app) as state, app.running():
                yield state

    return of
