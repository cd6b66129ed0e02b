"""Login by OpenID Connect: authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, RFC 7636).

Authlib speaks the protocol and checks the tokens. Here are the routes `/login`, `/login/callback` and `/logout`, and
the sessions, which a restart ends.

The cookie of a session is `SameSite=Strict`: a browser does not send it when the provider leads back here. So a login
has a cookie of its own, `SameSite=Lax` and for `/login` alone, and ends on a page that leads on by itself: a request
from there has the cookie. The cookie holds what the login needs (state, nonce, verifier), signed: logins that are begun
and not ended cost no memory.
"""

import base64
import hashlib
import hmac
import html
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, Response

from grete._web.security.access import ROLES, User

logger = logging.getLogger("grete.web")

COOKIE = "grete_login"
SESSION_SECONDS = 8 * 3600.0
"""Seconds after which a user logs in again."""
_LOGIN_SECONDS = 600
_MOST_SESSIONS = 10_000
_MAX_NAME = 100
_MAX_PATH = 1000  # browsers drop cookies of more than 4 KiB
_ANY = "*"


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Settings of the login.

    Attributes:
        issuer: URL of the provider, under which `/.well-known/openid-configuration` is.
        public_url: URL of `grete web` as browsers know it, without a path.
        name_claim: claim with the user's name; where it is missing, `sub`.
        role_claim: claim with names of groups or roles, which `roles` may contain as well; "": none.
        roles: role by name of a user or a group; "*": of everybody whom the provider lets in.
    """

    issuer: str
    client_id: str
    client_secret: str
    public_url: str
    name_claim: str = "preferred_username"
    role_claim: str = ""
    roles: Mapping[str, str] = field(default_factory=dict)

    def user(self, claims: Mapping[str, Any]) -> User | None:
        """Returns the user of these claims, with the highest of the roles; None: none of them has a role."""
        subject, name = claims.get("sub"), claims.get(self.name_claim)
        if self.name_claim == "email" and claims.get("email_verified") is False:
            name = None  # anybody may have written it
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
            name = str(subject)[:_MAX_NAME]
        groups = claims.get(self.role_claim) if self.role_claim else None
        names = [name, *([groups] if isinstance(groups, str) else groups if isinstance(groups, list) else ()), _ANY]
        found = [self.roles[one] for one in names if isinstance(one, str) and one in self.roles]
        return User(name, max(found, key=ROLES.index), may_log_out=True) if found else None


class OidcLogin:
    """Routes of the login, and users of sessions."""

    def __init__(self, settings: OidcSettings) -> None:
        from authlib.integrations.starlette_client import OAuth

        self._settings = settings
        self._key = os.urandom(32)
        self._sessions: dict[str, tuple[User, float]] = {}
        self._provider = OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={"scope": "openid profile email", "code_challenge_method": "S256"},
        )

    def user(self, session: str) -> User | None:
        """Returns the user of a session; None: the session has no login, or an old one."""
        found = self._sessions.get(session)
        if found is None:
            return None
        if time.monotonic() >= found[1]:
            del self._sessions[session]
            return None
        return found[0]

    @property
    def is_secure(self) -> bool:
        """Whether browsers ask by HTTPS, so that cookies go nowhere else."""
        return self._settings.public_url.startswith("https:")

    @staticmethod
    def handles(path: str) -> bool:
        """Returns whether the path belongs to the login, and needs none."""
        return path in ("/login", "/login/callback", "/logout")

    async def respond(self, request: Request, session: str) -> tuple[Response, str]:
        """Returns the response of a route, and the id of the session from now on."""
        try:
            match request.url.path:
                case "/login":
                    return await self._begin(request), session
                case "/login/callback":
                    return await self._end(request, session)
        except Exception as error:  # of the provider, of its answers, of the network
            issuer = self._settings.issuer
            logger.warning("a login at %s failed: %s: %s; users may try again", issuer, type(error).__name__, error)
            text = "the login failed: the log of grete web says why; load /login to try again"
            return PlainTextResponse(text, 502), session
        self._sessions.pop(session, None)
        return _page("Logged out", "/login", "Log in again", leads_on=False), _new_id()

    async def _begin(self, request: Request) -> Response:
        state: dict[str, Any] = {}
        request.scope["session"] = state
        response: Response = await self._provider.authorize_redirect(request, self._url("/login/callback"))
        login = {"after": _local_path(request.query_params.get("next", "/")), "at": time.time(), "state": state}
        response.headers["set-cookie"] = self._cookie(self._sign(login), _LOGIN_SECONDS)
        return response

    async def _end(self, request: Request, session: str) -> tuple[Response, str]:
        login = self._read(_cookie_of(request))
        if login is None:
            text = "this login has expired, or began in another browser: load /login to begin again"
            return PlainTextResponse(text, 400), session
        request.scope["session"] = login["state"]
        token = await self._provider.authorize_access_token(request)
        claims = token.get("userinfo")
        if not claims:
            raise ValueError("the provider has sent no ID token: its client needs the scope openid")
        user = self._settings.user(claims)
        if user is None:
            logger.warning("%s has logged in, and has no role", claims.get(self._settings.name_claim) or claims["sub"])
            return PlainTextResponse("you have no role here: ask for --role NAME=viewer of grete web", 403), session
        now, number = time.monotonic(), _new_id()  # a new one: the old id may be known to others
        ends = {key: ends for key, (_, ends) in self._sessions.items()}
        _drop_expired(self._sessions, ends, now, _MOST_SESSIONS)
        self._sessions.pop(session, None)
        self._sessions[number] = (user, now + SESSION_SECONDS)
        response = _page("Logged in", login["after"], "Go on", leads_on=True)
        response.headers["set-cookie"] = self._cookie("", 0)
        return response, number

    def _sign(self, login: dict[str, Any]) -> str:
        text = base64.urlsafe_b64encode(json.dumps(login).encode()).decode()
        return f"{text}.{self._signature(text)}"

    def _read(self, cookie: str) -> dict[str, Any] | None:
        """Returns the login in a cookie; None: the cookie is not of this process, or too old."""
        text, _, signature = cookie.rpartition(".")
        if not hmac.compare_digest(signature.encode(), self._signature(text).encode()):
            return None
        login: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text))
        return login if 0 <= time.time() - login["at"] < _LOGIN_SECONDS else None

    def _signature(self, text: str) -> str:
        return hmac.new(self._key, text.encode(), hashlib.sha256).hexdigest()

    def _url(self, path: str) -> str:
        return f"{self._settings.public_url.rstrip('/')}{path}"

    def _cookie(self, value: str, seconds: int) -> str:
        secure = "; Secure" if self.is_secure else ""
        return f"{COOKIE}={value}; Path=/login; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def _new_id() -> str:
    return os.urandom(16).hex()


def _cookie_of(request: Request) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(COOKIE)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _local_path(path: str) -> str:
    """Returns the path, if it leads to no other site."""
    parts = urlsplit(path)
    is_local = path.startswith("/") and path[1:2] not in ("/", "\\") and not parts.netloc and path.isprintable()
    return path if is_local and len(path) <= _MAX_PATH else "/"


def _drop_expired(entries: dict[str, Any], ends: Mapping[str, float], now: float, most: int) -> None:
    """Removes entries that have ended; the oldest ones, too, if `most` are left."""
    for key, end in ends.items():
        if end <= now:
            del entries[key]
    while len(entries) >= most:
        del entries[next(iter(entries))]


def _page(title: str, path: str, text: str, *, leads_on: bool) -> HTMLResponse:
    target = html.escape(path, quote=True)
    refresh = f'<meta http-equiv="refresh" content="0;url={target}">' if leads_on else ""
    return HTMLResponse(
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title>{refresh}</head>'
        f'<body><h1>{title}</h1><p><a href="{target}">{text}</a></p></body></html>'
    )
