"""Sources of bearer tokens: a function of the user, a token endpoint (OIDC), a file, and the libraries of clouds."""

import asyncio
import base64
import http.client
import importlib
import inspect
import json
import os
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

from grete import _native
from grete._sasl import presets
from grete.errors import ConfigError

# Seconds for one request to a token endpoint.
_REQUEST_TIMEOUT = 20.0
_MAX_RESPONSE_BYTES = 1 << 20

Fetch = Callable[[], object]
PROVIDER = "sasl.oauthbearer.token.provider"

# Errors of the system that a restart of something else does not end.
_LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, ssl.SSLCertVerificationError)
# Answers of a token endpoint that another request may not get.
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})

_providers: dict[str, Callable[[], object]] = {}
_lock = threading.Lock()


def _in_child() -> None:
    """Replaces the lock, which another thread of the parent may have held at the fork."""
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_in_child)


class UnavailableError(ValueError):
    """Failure of a source that passes by itself: the source is not reached, or is overloaded."""


def passes(error: BaseException) -> bool:
    """Returns whether a source that failed so may work again without a change of settings or code."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    return isinstance(error, (UnavailableError, OSError)) and not isinstance(error, _LASTING)


def register(provider: Callable[[], object]) -> str:
    """Keeps a function of the user, and returns the name that stands for it among the settings."""
    base = f"{getattr(provider, '__module__', '?')}:{getattr(provider, '__qualname__', type(provider).__name__)}"
    with _lock:
        number, name = 1, base
        while _providers.setdefault(name, provider) != provider:  # a bound method is equal, not the same
            number += 1
            name = f"{base}#{number}"
        return name


def source_of(fields: dict[str, Any]) -> tuple[str, Fetch]:
    """Returns the name of the source that the settings ask for, and a function that fetches a token.

    Raises ConfigError if the settings name none, or not enough.
    """
    given = [name for name in ("provider", "endpoint", "file", "preset") if fields[name]]
    if not given:
        raise ConfigError(
            "sasl.mechanism=OAUTHBEARER needs a source of tokens: set sasl.oauthbearer.token.endpoint.url with "
            f"sasl.oauthbearer.client.id and .client.secret, sasl.oauthbearer.token.file, or {PROVIDER}",
            setting=PROVIDER,
        )
    if len(given) > 1:
        raise ConfigError(
            f"OAUTHBEARER has more than one source of tokens ({' and '.join(given)}): leave out all but one",
            setting=PROVIDER,
        )
    if given == ["provider"]:
        return _provider(fields["provider"])
    if given == ["endpoint"]:
        return _endpoint(fields)
    if given == ["file"]:
        path = Path(fields["file"])
        return f"the file {path}", lambda: _native.FileToken(path)
    return presets.source_of(fields["preset"], fields)


def _provider(name: str) -> tuple[str, Fetch]:
    provider = _providers.get(name)
    if provider is None:
        module, colon, attribute = name.partition(":")
        try:
            if not colon:
                raise AttributeError
            found: Any = importlib.import_module(module)
            for part in attribute.split("."):
                found = getattr(found, part)
        except (ImportError, AttributeError) as error:
            raise ConfigError(
                f"{PROVIDER} = {name!r} is no function: give a callable, or its name as MODULE:FUNCTION ({error})",
                setting=PROVIDER,
            ) from None
        if not callable(found):
            raise ConfigError(f"{PROVIDER} = {name!r} cannot be called", setting=PROVIDER)
        provider = found
    call: Callable[[], object] = provider

    def fetch() -> object:
        try:
            result = call()
            if inspect.isawaitable(result):
                return asyncio.run(_awaited(result))
            return result
        except ValueError as error:
            # The refresher takes the text of a ValueError as it is, and the user's function raises any.
            raise ValueError(f"raised {type(error).__name__}: {error}") from error

    return f"{PROVIDER} {name}", fetch


async def _awaited(awaitable: Any) -> object:
    return await awaitable


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects, because the target would get the client's secret, too."""

    def redirect_request(self, *_: Any) -> None:
        """Makes the redirect an error."""


def _endpoint(fields: dict[str, Any]) -> tuple[str, Fetch]:
    """OAuth 2.0 client credentials (RFC 6749, section 4.4), as KIP-768 and librdkafka's `oidc` request them."""
    url, client_id, secret = fields["endpoint"], fields["client_id"], fields["client_secret"]
    setting = "sasl.oauthbearer.token.endpoint.url"
    parts = urllib.parse.urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username:
        raise ConfigError(f"{setting} is an address like https://idp.example/oauth2/token", setting=setting)
    if not client_id or not secret:
        missing = "sasl.oauthbearer.client.secret" if client_id else "sasl.oauthbearer.client.id"
        raise ConfigError(f"{setting} needs {missing}", setting=missing)
    form = {"grant_type": "client_credentials"} | ({"scope": fields["scope"]} if fields["scope"] else {})
    pair = f"{urllib.parse.quote_plus(client_id)}:{urllib.parse.quote_plus(secret)}"
    request = urllib.request.Request(  # noqa: S310 (checked above)
        url,
        urllib.parse.urlencode(form).encode(),
        {
            "Authorization": f"Basic {base64.b64encode(pair.encode()).decode()}",
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    opener = urllib.request.build_opener(_NoRedirect())

    def fetch() -> object:
        try:
            with opener.open(request, timeout=_REQUEST_TIMEOUT) as response:
                body = response.read(_MAX_RESPONSE_BYTES)
        except urllib.error.HTTPError as error:
            with error:
                kind = UnavailableError if error.code in _PASSING_STATUS else ValueError
                raise kind(f"it answers {error.code} {error.reason}{_said(error)}") from None
        except (OSError, http.client.HTTPException) as error:
            kind = UnavailableError if passes(error) or isinstance(error, http.client.HTTPException) else ValueError
            raise kind(f"it does not answer: {getattr(error, 'reason', error)}") from None
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            raise ValueError("it answers something that is no JSON") from None
        if not isinstance(found, dict) or not found.get("access_token"):
            raise ValueError("its answer has no access_token")
        return found

    return f"the token endpoint {parts.scheme}://{parts.netloc}{parts.path}", fetch


def _said(error: urllib.error.HTTPError) -> str:
    """Returns `error` and `error_description` of RFC 6749, section 5.2."""
    try:
        said = json.loads(error.read(1 << 14))
        texts = [str(said[name])[:200] for name in ("error", "error_description") if said.get(name)]
    except (ValueError, TypeError, AttributeError, OSError, RecursionError):
        return ""
    return f" ({': '.join(texts)})" if texts else ""
