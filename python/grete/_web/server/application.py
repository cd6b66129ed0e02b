"""ASGI application: routes to pages, each also as JSON under /api."""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from grete._web.security.access import Access
from grete._web.security.guard import Guard
from grete._web.server import brokers, commands, dashboard, errors, groups, letters, processes, records
from grete._web.server.context import Context, Data, Parts
from grete._web.server.rendering import STATIC, make_environment, render
from grete.errors import GreteError, UnknownGroupError, UnknownTopicError

Build = Callable[[Context], Data]
Act = Callable[[Context], str]
Endpoint = Callable[[Request], Awaitable[Response]]

# Path -> (template, data)
PAGES: Mapping[str, tuple[str, Build]] = {
    "/": ("dashboard.html", dashboard.dashboard),
    "/processes": ("apps/processes.html", processes.processes),
    "/process": ("apps/process.html", processes.process),
    "/groups": ("apps/groups.html", groups.groups),
    "/group": ("apps/group.html", groups.group),
    "/errors": ("apps/errors.html", errors.errors),
    "/errors/{id}": ("apps/error.html", errors.error),
    "/letters": ("kafka/letter_topics.html", letters.letter_topics),
    "/letters/{topic}": ("kafka/letters.html", letters.letters_of),
    "/letters/{topic}/{partition}/{offset}": ("kafka/letter.html", letters.letter),
    "/topics": ("kafka/topics.html", records.topics),
    "/topics/{topic}": ("kafka/topic.html", records.topic),
    "/topics/{topic}/records": ("kafka/records.html", records.records),
    "/topics/{topic}/{partition}/{offset}": ("kafka/record.html", records.record),
    "/cluster": ("kafka/cluster.html", brokers.cluster),
    "/transactions": ("kafka/transactions.html", brokers.transactions),
    "/audit": ("apps/audit.html", commands.audit),
    "/status": ("status.html", dashboard.status),
}
# Forms whose answer is a page, and forms that change something, whose answer leads to a page.
QUERIES: Mapping[str, tuple[str, Build]] = {
    "/topics/{topic}/search": ("kafka/records.html", records.search),
    "/process/plan": ("apps/command.html", commands.plan),
    "/letters/{topic}/plan": ("kafka/plan.html", letters.plan),
}
ACTIONS: Mapping[str, Act] = {
    "/process/send": commands.send,
    "/letters/{topic}/replay": letters.replay,
    "/letters/{topic}/stop": letters.stop_replay,
}


def make_application(parts: Parts, access: Access, hosts: Collection[str] = ()) -> ASGIApp:
    """Returns the application behind its guard."""
    pages = _Pages(parts)
    routes: list[Route | Mount] = [Mount("/static", StaticFiles(directory=STATIC))]
    routes.append(Route("/api/series", pages.json(dashboard.series)))
    for path, (template, build) in PAGES.items():
        routes.append(Route(path, pages.page(template, build)))
        routes.append(Route(f"/api{path}" if path != "/" else "/api/dashboard", pages.json(build)))
    for path, (template, build) in QUERIES.items():
        routes.append(Route(path, pages.page(template, build), methods=["POST"]))
    for path, act in ACTIONS.items():
        routes.append(Route(path, pages.action(act), methods=["POST"]))
    routes.append(Route("/topics/{topic}/{partition}/{offset}/download", pages.download))
    application = Starlette(
        routes=routes,
        exception_handlers={HTTPException: pages.refused, GreteError: pages.failed, Exception: pages.broken},
    )
    return Guard(application, access, hosts)


class _Pages:
    """Endpoints. Data are built in threads, because brokers are asked."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._environment = make_environment()

    def page(self, template: str, build: Build) -> Endpoint:
        """Returns the endpoint of a page."""

        async def endpoint(request: Request) -> Response:
            context = self._context(request)
            data = await run_in_threadpool(build, context)
            return HTMLResponse(await run_in_threadpool(self._render, request, template, data, context))

        return endpoint

    def json(self, build: Build) -> Endpoint:
        """Returns the endpoint of the same data as JSON."""

        async def endpoint(request: Request) -> Response:
            return JSONResponse(await run_in_threadpool(build, self._context(request)))

        return endpoint

    def action(self, act: Act) -> Endpoint:
        """Returns the endpoint of a form that changes something."""

        async def endpoint(request: Request) -> Response:
            return RedirectResponse(await run_in_threadpool(act, self._context(request)), 303)

        return endpoint

    async def download(self, request: Request) -> Response:
        """Returns a part of a record as a file."""
        return await run_in_threadpool(records.download, self._context(request))

    async def refused(self, request: Request, error: Exception) -> Response:
        """Answers a request that cannot be served as it is."""
        assert isinstance(error, HTTPException)
        return self._problem(request, error.status_code, str(error.detail))

    async def failed(self, request: Request, error: Exception) -> Response:
        """Answers a request for which brokers have no answer."""
        status = 404 if isinstance(error, (UnknownTopicError, UnknownGroupError)) else 502
        return self._problem(request, status, str(error))

    async def broken(self, request: Request, error: Exception) -> Response:
        """Answers a request that met a defect. The log has the traceback."""
        return self._problem(request, 500, f"grete web has a defect: {type(error).__name__}; its log has the traceback")

    def _problem(self, request: Request, status: int, text: str) -> Response:
        if request.url.path.startswith("/api/"):
            return JSONResponse({"error": text}, status)
        context = self._context(request)
        return HTMLResponse(self._render(request, "problem.html", {"status": status, "text": text}, context), status)

    def _context(self, request: Request) -> Context:
        state: Any = request.state
        return Context(self._parts, state.user, request.path_params, dict(request.query_params), state.form)

    def _render(self, request: Request, template: str, data: Data, context: Context) -> str:
        return render(
            self._environment,
            template,
            data,
            context,
            path=request.url.path,
            csrf=request.state.csrf,
            problem=self._parts.collector.problem,
        )
