"""Login by OpenID Connect: authorization code flow with PKCE, state and nonce (OpenID Connect Core 1.0, RFC 7636).

Authlib speaks the protocol and checks the tokens. Here are the routes `/login` and `/login/callback`, and the
sessions, which a restart ends.

The cookie of a session is `SameSite=Strict`: a browser does not send it when the provider leads back here. So a login
has a cookie of its own, `SameSite=Lax` and for `/login` alone, and ends on a page that leads on by itself: a request
from there has the cookie. The cookie holds what the login needs (state, nonce, verifier), signed: logins that are begun
and not ended cost no memory.
"""

import asyncio
import base64
import hashlib
import hmac
import json
import logging
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response

from grete._web.security.access import ROLES, User
from grete._web.security.leading_page import leading_page

logger = logging.getLogger("grete.web")

COOKIE = "grete_login"
SESSION_SECONDS = 8 * 3600.0
"""Seconds after which a user logs in again."""
_LOGIN_SECONDS = 600
_MOST_SESSIONS = 10_000
_MAX_NAME = 100
_MAX_PATH = 1000  # browsers drop cookies of more than 4 KiB
_ANY = "*"
GROUP = "group:"
"""Prefix of groups in the names of roles."""
_PROVIDER_SECONDS = 15
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Settings of the login.

    Attributes:
        issuer: URL of the provider, under which `/.well-known/openid-configuration` is.
        public_url: URL of `grete web` as browsers know it, without a path.
        name_claim: claim with the user's name; where it is missing, `sub`.
        role_claim: claim with the names of groups; "": none. "a.b" is the claim b in the claim a.
        roles: role by name of a user, or of a group behind "group:"; "*": of all whom the provider lets in.
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
        name = claims.get(self.name_claim)
        if self.name_claim == "email" and claims.get("email_verified") is not True:
            name = None  # any user may have written it
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _MAX_NAME:
            name = str(claims["sub"])[:_MAX_NAME]
        # Users choose names, but not groups: a name never counts as a group.
        keys = [name] if not name.startswith(GROUP) else []
        keys += [_ANY, *(f"{GROUP}{group}" for group in self.groups(claims))]
        found = [self.roles[key] for key in keys if key in self.roles]
        return User(name, max(found, key=ROLES.index), may_log_out=True) if found else None

    def groups(self, claims: Mapping[str, Any]) -> list[str]:
        """Returns the names of the user's groups."""
        found: Any = claims
        for part in [self.role_claim] if self.role_claim in claims else self.role_claim.split("."):
            found = found.get(part) if isinstance(found, Mapping) else None
        names = [found] if isinstance(found, str) else found if isinstance(found, list) else []
        return [name for name in names if isinstance(name, str)]


class OidcLogin:
    """Routes of the login, and users of sessions."""

    def __init__(self, settings: OidcSettings) -> None:
        import httpx
        from authlib.integrations.starlette_client import OAuth

        for library in ("httpx", "httpx2"):  # which log each request
            logging.getLogger(library).setLevel(logging.WARNING)
        self._settings = settings
        self._key = os.urandom(32)
        self._sessions: dict[str, tuple[User, float]] = {}
        self._provider = OAuth().register(
            "provider",
            client_id=settings.client_id,
            client_secret=settings.client_secret or None,
            server_metadata_url=f"{settings.issuer.rstrip('/')}/.well-known/openid-configuration",
            client_kwargs={
                "scope": "openid profile email",
                "code_challenge_method": "S256",
                # One for all requests: to read the authorities takes 50 ms.
                "verify": httpx.create_ssl_context(),
                "timeout": _PROVIDER_SECONDS,
            },
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
        return path in ("/login", "/login/callback")

    async def respond(self, request: Request, session: str) -> tuple[Response, str]:
        """Returns the response of a route, and the id of the session from now on."""
        from authlib.integrations.base_client import OAuthError

        issuer = self._settings.issuer
        try:
            async with asyncio.timeout(_PROVIDER_SECONDS):
                if request.url.path == "/login":
                    return await self._begin(request), session
                return await self._end(request, session)
        except OAuthError as error:
            logger.warning("a login at %s was refused: %s", issuer, error)
            return PlainTextResponse(f"the login was refused: {error}; load /login to try again", 403), session
        except Exception as error:  # of the provider, of its answers, of the network
            self._provider.server_metadata.clear()  # they may be what is wrong
            logger.warning("a login at %s failed: %s: %s; users may try again", issuer, type(error).__name__, error)
            text = "the login failed: the log of grete web says why; load /login to try again"
            return PlainTextResponse(text, 502), session

    def log_out(self, session: str) -> Response:
        """Ends a session."""
        self._sessions.pop(session, None)
        return PlainTextResponse("you are logged out here, and not at the provider: load /login to log in again")

    async def _begin(self, request: Request) -> Response:
        await self._check_provider()
        state: dict[str, Any] = {}
        request.scope["session"] = state
        response: Response = await self._provider.authorize_redirect(request, self._url("/login/callback"))
        login = {"after": _local_path(request.query_params.get("next", "/")), "at": time.time(), "state": state}
        name = _cookie_name(dict(parse_qsl(urlsplit(response.headers["location"]).query)).get("state", ""))
        response.headers["set-cookie"] = self._cookie(name, self._sign(login), _LOGIN_SECONDS)
        return response

    async def _end(self, request: Request, session: str) -> tuple[Response, str]:
        name = _cookie_name(request.query_params.get("state", ""))
        login = self._read(_cookie_of(request, name))
        if login is None:
            text = "this login has expired, or began in another browser: load /login to begin again"
            return PlainTextResponse(text, 400), session
        await self._check_provider()
        request.scope["session"] = login["state"]
        token = await self._provider.authorize_access_token(request)
        claims = token.get("userinfo")
        if not claims:
            raise ValueError("the provider has sent no ID token: its client needs the scope openid")
        if not isinstance(claims.get("sub"), str) or not claims["sub"]:
            raise ValueError("the ID token names no user: sub has to be a text")
        user = self._settings.user(claims)
        if user is None:
            who, groups = claims.get(self._settings.name_claim) or claims["sub"], self._settings.groups(claims)
            logger.warning("%.100s of the groups %.300s has logged in, and has no role: see --role", who, groups)
            text = f"{who!s:.100} has no role here: ask for grete web --role NAME=viewer"
            return PlainTextResponse(text, 403), session
        now, number = time.monotonic(), os.urandom(16).hex()  # a new one: the old id may be known to others
        self._sessions.pop(session, None)
        self._sessions = {key: one for key, one in self._sessions.items() if one[1] > now}
        while len(self._sessions) >= _MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]  # the oldest one
        self._sessions[number] = (user, now + SESSION_SECONDS)
        response = leading_page("Logged in", login["after"])
        response.headers["set-cookie"] = self._cookie(name, "", 0)
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

    async def _check_provider(self) -> None:
        """Checks what the provider says of itself (OpenID Connect Discovery 1.0, 4.3)."""
        found = await self._provider.load_server_metadata()
        issuer = self._settings.issuer
        if not isinstance(found.get("issuer"), str) or found["issuer"].rstrip("/") != issuer.rstrip("/"):
            raise ValueError(f"the provider calls itself {found.get('issuer')!r:.200}: --oidc has to be the same")
        missing = [name for name in _ENDPOINTS if not isinstance(found.get(name), str)]
        if missing:
            raise ValueError(f"the provider has no {', '.join(missing)}")
        named = found.get("id_token_signing_alg_values_supported")
        signed = [name for name in named if name in _ALGORITHMS] if isinstance(named, list) else []
        found["id_token_signing_alg_values_supported"] = signed or ["RS256"]

    def _cookie(self, name: str, value: str, seconds: int) -> str:
        secure = "; Secure" if self.is_secure else ""
        return f"{name}={value}; Path=/login; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}"


def _cookie_name(state: str) -> str:
    """Returns the name of a login's cookie. Logins in two tabs have two."""
    return f"{COOKIE}_{hashlib.sha256(state.encode()).hexdigest()[:8]}"


def _cookie_of(request: Request, name: str) -> str:
    try:
        found = SimpleCookie(request.headers.get("cookie", "")).get(name)
    except CookieError:
        return ""
    return found.value if found is not None else ""


def _local_path(path: str) -> str:
    """Returns the path, if it is a page of `grete web`."""
    try:
        parts = urlsplit(path)
    except ValueError:
        return "/"
    is_local = path.startswith("/") and path[1:2] not in ("/", "\\") and not parts.netloc and path.isprintable()
    is_page = not OidcLogin.handles(parts.path) and parts.path != "/logout"
    return path if is_local and is_page and len(json.dumps(path)) <= _MAX_PATH else "/"
