"""Guard before all pages: hosts, logins, forged requests, sizes, rates, and headers of responses."""

import hashlib
import hmac
import ipaddress
import os
import time
from collections.abc import Collection
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs, quote, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from grete._web.security.access import Access
from grete._web.security.leading_page import leading_page

COOKIE = "grete_web"
LOGOUT = "/logout"
MAX_BODY = 64 * 1024
# Requests of one address: so many at once, and then so many a second.
_BURST = 400.0
_RATE = 40.0
_KEPT_ADDRESSES = 10_000
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})

CSP = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": CSP,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not "no-referrer": browsers would send forms of our own pages with `Origin: null`.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}
_SAFE = frozenset({"GET", "HEAD"})


class Guard:
    """ASGI application around the pages."""

    def __init__(self, app: ASGIApp, access: Access, hosts: Collection[str]) -> None:
        """`hosts`: names by which browsers may ask, beside those of loopback; "*": any."""
        self._app = app
        self._access = access
        self._hosts = frozenset(host.lower() for host in hosts)
        self._secret = os.urandom(32)
        self._allowances: dict[str, tuple[float, float]] = {}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handles one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        session, is_new = _session(headers)
        refused, login = self._refusal(scope, headers), self._access.login
        if refused is None and login is not None and login.handles(scope["path"]) and scope["method"] == "GET":
            # A new id begins with a login alone: the provider leads here without the cookie of a session that goes on.
            refused, number = await login.respond(Request(scope), session)
            session, is_new = number, number != session
        elif refused is None and is_new and _is_led_here(scope, headers):
            # Without its cookie, which is strict, and which a new one would replace.
            refused, is_new = _same_page(scope), False
        elif refused is None:
            user = self._access.user(headers, _client(scope), session)
            if user is None:
                refused = self._ask_to_log_in(scope, headers)
            else:
                token = self._token(session, user.name)
                state = scope.setdefault("state", {})
                state |= {"user": user, "csrf": token, "form": {}}
                if scope["method"] not in _SAFE:
                    refused = await self._read_form(scope, receive, headers, token)
                if refused is None and login is not None and scope["path"] == LOGOUT and scope["method"] == "POST":
                    refused = login.log_out(session)
        is_secure = scope.get("scheme") == "https" or (login is not None and login.is_secure)
        cookie = _cookie(session, is_secure) if is_new else None
        await (self._app if refused is None else refused)(scope, receive, _with_headers(send, scope, cookie))

    def _ask_to_log_in(self, scope: Scope, headers: dict[str, str]) -> Response:
        if self._access.login is None:
            basic = 'Basic realm="grete web", charset="UTF-8"'
            return PlainTextResponse(
                "a login is needed", 401, {} if self._access.header else {"www-authenticate": basic}
            )
        # A script that follows would end at another site.
        is_navigation = headers.get("sec-fetch-mode", "navigate") == "navigate"
        if scope["method"] != "GET" or not is_navigation or scope["path"].startswith(("/api/", "/static/")):
            return PlainTextResponse("a login is needed: load /login", 401)
        query = scope["query_string"].decode("latin-1")
        after = quote(scope["path"] + (f"?{query}" if query else ""), safe="")
        return RedirectResponse(f"/login?next={after}", 303)

    def _refusal(self, scope: Scope, headers: dict[str, str]) -> Response | None:
        """Returns the response to a request that is refused for every user; None: it is not."""
        if not self._may_ask(_client(scope)):
            return PlainTextResponse("too many requests: wait a moment", 429, {"retry-after": "5"})
        host = _host_name(headers.get("host", ""))
        if "*" not in self._hosts and host not in self._hosts | _LOOPBACK:
            # A page of another site whose name leads here would read the answers (DNS rebinding).
            return PlainTextResponse("unknown host: start grete web with --public-host NAME", 421)
        if scope["method"] not in {*_SAFE, "POST"}:
            return PlainTextResponse("method not allowed", 405, {"allow": "GET, HEAD, POST"})
        if scope["method"] == "POST" and not _is_same_origin(headers):
            return PlainTextResponse("the request comes from another site", 403)
        return None

    async def _read_form(self, scope: Scope, receive: Receive, headers: dict[str, str], token: str) -> Response | None:
        body = bytearray()
        more = True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return PlainTextResponse("the request has not ended", 400)
            body += message.get("body", b"")
            more = message.get("more_body", False)
            if len(body) > MAX_BODY:
                return PlainTextResponse("the request is too large", 413)
        if headers.get("content-type", "").partition(";")[0].strip() != "application/x-www-form-urlencoded":
            return PlainTextResponse("a form is needed", 415)
        try:
            fields = parse_qs(body.decode(), keep_blank_values=True, max_num_fields=50)
        except ValueError:
            return PlainTextResponse("the form cannot be read", 400)
        form = {name: values[-1] for name, values in fields.items()}
        if not hmac.compare_digest(form.pop("csrf", "").encode("utf-8", "replace"), token.encode()):
            return PlainTextResponse("the form has expired: load the page again", 403)
        scope["state"]["form"] = form
        return None

    def _token(self, session: str, user: str) -> str:
        return hmac.new(self._secret, f"{session}\0{user}".encode(), hashlib.sha256).hexdigest()

    def _may_ask(self, client: str) -> bool:
        now = time.monotonic()
        if len(self._allowances) > _KEPT_ADDRESSES:
            self._allowances.clear()
        left, at = self._allowances.get(client, (_BURST, now))
        left = min(_BURST, left + (now - at) * _RATE) - 1
        self._allowances[client] = (max(left, 0.0), now)
        return left >= 0


def _is_led_here(scope: Scope, headers: dict[str, str]) -> bool:
    """Returns whether a link of another site has led here."""
    is_navigation = headers.get("sec-fetch-mode") == "navigate" and headers.get("sec-fetch-site") == "cross-site"
    return is_navigation and scope["method"] == "GET"


def _same_page(scope: Scope) -> Response:
    query = scope["query_string"].decode("latin-1")
    path = quote(scope["path"], safe="/:@!$&'()*+,;=~") + (f"?{query}" if query else "")
    return leading_page("grete web", "/" + path.lstrip("/\\"))


def is_loopback(host: str) -> bool:
    """Returns whether only this machine can reach a port on this address."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _client(scope: Scope) -> str:
    client = scope.get("client")
    return str(client[0]) if client else ""


def _host_name(host: str) -> str:
    try:
        return (urlsplit(f"//{host}").hostname or "").lower()
    except ValueError:
        return ""


def _is_same_origin(headers: dict[str, str]) -> bool:
    if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        return False
    origin = headers.get("origin")
    if origin is None:
        return True
    try:
        return urlsplit(origin).netloc.lower() == headers.get("host", "").lower()
    except ValueError:
        return False


def _session(headers: dict[str, str]) -> tuple[str, bool]:
    """Returns the id in the cookie, or a new one."""
    try:
        found = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        found = None
    if found is not None and len(found.value) == 32 and found.value.isalnum() and found.value.isascii():
        return found.value, False
    return os.urandom(16).hex(), True


def _cookie(session: str, is_secure: bool) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{COOKIE}={session}; Path=/; HttpOnly; SameSite=Strict{secure}"


def _with_headers(send: Send, scope: Scope, cookie: str | None) -> Send:
    is_static = scope["path"].startswith("/static/")

    async def guarded(message: Message) -> None:
        if message["type"] == "http.response.start":
            own: list[tuple[bytes, bytes]] = list(message.get("headers", []))
            added: dict[str, Any] = dict(_HEADERS)
            if not is_static:
                added["cache-control"] = "no-store"
            own = [(name, value) for name, value in own if name.decode().lower() not in added]
            cookies = [(b"set-cookie", cookie.encode())] if cookie is not None else []
            message["headers"] = [*own, *((name.encode(), value.encode()) for name, value in added.items()), *cookies]
        await send(message)

    return guarded
