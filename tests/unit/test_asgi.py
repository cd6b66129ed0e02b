"""An App that lives as long as an ASGI application, driven as a server drives it."""

import asyncio
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

import grete
from tests.unit.test_stop import make

pytestmark = pytest.mark.usefixtures("empty_directory")

Message = dict[str, Any]
Asgi = Callable[[Message, Callable[[], Awaitable[Any]], Callable[[Any], Awaitable[None]]], Awaitable[None]]


async def serve(asgi: Asgi, while_up: Callable[[Message], Awaitable[None]]) -> list[Message]:
    """What a server does: the lifespan protocol, with requests in between. Returns what the application has said."""
    to_app: asyncio.Queue[Message] = asyncio.Queue()
    said: list[Message] = []
    started = asyncio.Event()
    state: dict[str, Any] = {}

    async def send(message: Message) -> None:
        said.append(message)
        started.set()

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": state}
    await to_app.put({"type": "lifespan.startup"})
    task = asyncio.ensure_future(asgi(scope, to_app.get, send))
    await asyncio.wait([task, asyncio.ensure_future(started.wait())], return_when=asyncio.FIRST_COMPLETED)
    if said[-1]["type"] == "lifespan.startup.complete":
        await while_up(state)
    await to_app.put({"type": "lifespan.shutdown"})
    await asyncio.wait([task])
    task.exception()  # a server got it as a message
    return said


async def get(asgi: Asgi, state: Message) -> bytes:
    """The body of GET /."""
    body = b""

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal body
        body += message.get("body", b"")

    scope = {
        "type": "http",
        "method": "GET",
        "path": "/",
        "headers": [],
        "query_string": b"",
        "state": dict(state),
        "asgi": {"version": "3.0"},
    }
    await asgi(scope, receive, send)
    return body


def runs() -> bool:
    return any(thread.name == "grete-app" for thread in threading.enumerate())


async def home(request: Request) -> JSONResponse:
    return JSONResponse({"runs": runs(), "database": getattr(request.state, "database", None)})


def test_the_app_runs_while_the_server_answers() -> None:
    web = Starlette(routes=[Route("/", home)], lifespan=grete.asgi.lifespan(make()))

    async def ask(state: Message) -> None:
        assert await get(web, state) == b'{"runs":true,"database":null}'

    said = asyncio.run(serve(web, ask))
    assert [message["type"] for message in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert not runs()


def test_around_it_is_what_the_application_opens_itself() -> None:
    order: list[tuple[str, bool]] = []

    @asynccontextmanager
    async def database(_web: Any) -> AsyncIterator[Mapping[str, Any]]:
        order.append(("opened", runs()))
        yield {"database": "open"}
        order.append(("closed", runs()))

    web = Starlette(routes=[Route("/", home)], lifespan=grete.asgi.lifespan(make(), around=database))

    async def ask(state: Message) -> None:
        assert await get(web, state) == b'{"runs":true,"database":"open"}'

    said = asyncio.run(serve(web, ask))
    assert [message["type"] for message in said] == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert order == [("opened", False), ("closed", False)], "before the first record and after the last"


def test_a_server_does_not_start_with_what_is_wrong() -> None:
    web = Starlette(lifespan=grete.asgi.lifespan(grete.App("empty", kafka={"bootstrap.servers": "127.0.0.1:1"})))

    async def never(_state: Message) -> None:
        raise AssertionError("it must not start")

    (said,) = asyncio.run(serve(web, never))
    assert said["type"] == "lifespan.startup.failed"
    assert "has no consumer" in said["message"]


def test_the_loop_turns_while_the_app_stops() -> None:
    app = make()
    web = Starlette(lifespan=grete.asgi.lifespan(app))
    threads: list[str] = []
    stop = app.stop

    def stop_elsewhere(timeout: float | None = None) -> None:
        threads.append(threading.current_thread().name)
        stop(timeout)

    app.stop = stop_elsewhere  # type: ignore[method-assign]

    async def nothing(_state: Message) -> None:
        pass

    asyncio.run(serve(web, nothing))
    assert threads
    assert threading.main_thread().name not in threads
