"""A provider of OpenID Connect on a port of its own: discovery, keys, authorization without a form, tokens."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import uvicorn
from joserfc import jwt
from joserfc.jwk import RSAKey
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

CLIENT = "grete-web"


class Provider:
    """`claims`: of the user that logs in. `change`: replaces claims of the token; `key` signs it. `says`: replaces what
    the provider says of itself.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.claims: dict[str, Any] = {"sub": "1", "preferred_username": "ann"}
        self.change: dict[str, Any] = {}
        self.says: dict[str, Any] = {}
        self.algorithm = "RS256"
        self.secrets: list[str] = []
        self.own_key = self.key = RSAKey.generate_key(2048, {"kid": "one"})
        self._codes: dict[str, dict[str, str]] = {}

    def routes(self) -> list[Route]:
        return [
            Route("/.well-known/openid-configuration", self.metadata),
            Route("/keys", self.keys),
            Route("/authorize", self.authorize),
            Route("/token", self.token, methods=["POST"]),
        ]

    async def metadata(self, request: Request) -> Response:
        places = {"authorization_endpoint": "authorize", "token_endpoint": "token", "jwks_uri": "keys"}
        algorithms = {"id_token_signing_alg_values_supported": ["RS256"]}
        return JSONResponse(
            {
                "issuer": self.url,
                **{name: f"{self.url}/{path}" for name, path in places.items()},
                **algorithms,
                **self.says,
            }
        )

    async def keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [self.own_key.as_dict(private=False)]})

    async def authorize(self, request: Request) -> Response:
        asked = dict(request.query_params)
        assert (asked["client_id"], asked["response_type"], asked["code_challenge_method"]) == (CLIENT, "code", "S256")
        code = f"code-{len(self._codes)}"
        self._codes[code] = asked
        return RedirectResponse(f"{asked['redirect_uri']}?{urlencode({'code': code, 'state': asked['state']})}", 302)

    async def token(self, request: Request) -> Response:
        form = {name: values[0] for name, values in parse_qs((await request.body()).decode()).items()}
        asked = self._codes.pop(form["code"], None)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(form["code_verifier"].encode()).digest()).decode()
        if asked is None or challenge.rstrip("=") != asked["code_challenge"]:
            return JSONResponse({"error": "invalid_grant"}, 400)
        self.secrets.append(request.headers.get("authorization", ""))
        now = int(time.time())
        fixed = {"iss": self.url, "aud": CLIENT, "iat": now, "exp": now + 60, "nonce": asked["nonce"]}
        claims = {**fixed, **self.claims, **self.change}
        if self.algorithm == "none":
            texts = [json.dumps(part).encode() for part in ({"alg": "none"}, claims)]
            token = ".".join(base64.urlsafe_b64encode(text).decode().rstrip("=") for text in texts) + "."
        else:
            token = jwt.encode({"alg": self.algorithm, "kid": "one"}, claims, self.key)
        return JSONResponse({"access_token": "x", "token_type": "Bearer", "id_token": token})


@contextmanager
def running_provider() -> Iterator[Provider]:
    """Runs a provider."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        provider = Provider(f"http://127.0.0.1:{listener.getsockname()[1]}")
        server = uvicorn.Server(uvicorn.Config(Starlette(routes=provider.routes()), log_config=None, lifespan="off"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield provider
        finally:
            server.should_exit = True
            thread.join()


def path_of(url: str) -> str:
    """Path and query of a URL."""
    parts = urlsplit(url)
    return f"{parts.path}?{parts.query}"
