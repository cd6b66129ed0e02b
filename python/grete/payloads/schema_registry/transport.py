"""HTTP requests to a Schema Registry: addresses, TLS, authentication, and the wait after failures.

A request goes to one address after the other until one answers. If none does, the registry is left alone for a while
(1 s, doubled up to 30 s): all requests fail at once with `grete.RetryLater`, so that a registry that is down holds up
no worker.
"""

import base64
import http.client
import json
import ssl
import threading
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import Any

from grete import _units
from grete._process import callsite
from grete.errors import ConfigError, RegistryError, RetryLater
from grete.payloads.schema_registry.auth import ClientCredentials

# Seconds that records wait for a registry that does not respond, before the next request; doubled up to the maximum.
_RETRY_BACKOFF = 1.0
_MAX_RETRY_BACKOFF = 30.0
# A schema is text that people write; longer responses are not schemas.
_MAX_RESPONSE_BYTES = 16 << 20
_CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# Responses that say nothing about the request: the same one may succeed later, or elsewhere.
_TEMPORARY = frozenset({401, 403, 408, 425, 429})

Auth = ClientCredentials | Callable[[], str]
"""Source of bearer tokens: client credentials, or a function that returns a token before each request."""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects, because the target would get our password, too."""

    def redirect_request(self, *_: Any) -> None:
        """Makes the redirect an error like any other response without a schema."""


class Transport:
    """Requests to the addresses of one registry. Thread-safe."""

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        user: str | None,
        password: str | None,
        token: str | None,
        auth: Auth | None,
        tls: Mapping[str, Any],
        timeout: str | float,
        headers: Mapping[str, str] | None,
    ) -> None:
        try:
            self._timeout = _units.seconds(timeout)
        except ValueError as error:
            raise _wrong(f"Registry(timeout={timeout!r}): {error}", "timeout") from None
        addresses = url.split(",") if isinstance(url, str) else url
        if not isinstance(addresses, (list, tuple)) or not addresses:
            raise _wrong(f'Registry({url!r}): the address of a registry is like "http://localhost:8081"', "url")
        parsed = [_parse_address(address) for address in addresses]
        self.urls = [address for address, _, _ in parsed]
        user = user if user is not None else parsed[0][1]
        password = password if password is not None else parsed[0][2]
        if sum(map(bool, (user, token, auth))) > 1:
            raise _wrong("Registry: user, token and auth are ways to say who you are: use one", "token")
        if auth is not None and not callable(auth) and not isinstance(auth, ClientCredentials):
            raise _wrong(
                f"Registry(auth={auth!r}): auth is ClientCredentials or a function that returns a token", "auth"
            )
        self._auth = auth
        self._headers = {"Accept": f"{_CONTENT_TYPE}, application/json", "Content-Type": _CONTENT_TYPE}
        if user:
            pair = base64.b64encode(f"{user}:{password or ''}".encode()).decode()
            self._headers["Authorization"] = f"Basic {pair}"
        elif token:
            self._headers["Authorization"] = f"Bearer {token}"
        self._headers.update(headers or {})
        self._opener = urllib.request.build_opener(_NoRedirect(), *_https_handlers(tls, self.urls))
        self._lock = threading.Lock()
        self._first = 0
        self._failures = 0
        self._retry_at = 0.0
        self._last_error = ""

    def request(self, method: str, path: str, what: str, body: Mapping[str, Any] | None = None) -> Any:
        """Returns the JSON of the response. `what` names the object in errors, like "a schema with id 7".

        Raises RetryLater if no address answers, or access is refused; RegistryError if the registry refuses the
        request.
        """
        # Two threads may both find the wait over and both send a request, which is harmless.
        if (left := self._retry_at - monotonic()) > 0:
            raise RetryLater(left, self._last_error)
        data = None if body is None else json.dumps(body).encode()
        failure: tuple[str, float] = ("", 0.0)
        first = self._first
        for number in range(len(self.urls)):
            index = (first + number) % len(self.urls)
            try:
                found = self._send(method, self.urls[index], path, data, what)
            except _NotAvailableError as error:
                failure = (f"the schema registry {self.urls[index]} {error}", error.wait)
                continue
            self._first, self._failures = index, 0
            return found
        raise self._back_off(*failure)

    def wrong_answer(self, path: str, found: object) -> RetryLater:
        """Returns the error for an answer that no schema registry gives."""
        url = self.urls[self._first]
        return self._back_off(f"{url}{path} does not answer like a schema registry: {str(found)[:80]}", 0.0)

    def _send(self, method: str, url: str, path: str, data: bytes | None, what: str) -> Any:
        headers = dict(self._headers)
        if self._auth is not None and "Authorization" not in headers:
            headers["Authorization"] = f"Bearer {self._token()}"
        try:
            body = self._open(f"{url}{path}", method, data, headers)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, url, what) from None
        except (OSError, http.client.HTTPException) as error:
            raise _NotAvailableError(f"does not answer: {getattr(error, 'reason', error)}") from error
        try:
            return json.loads(body)
        except (ValueError, RecursionError) as error:
            # A proxy's maintenance page, for example: no property of the record or its schema.
            raise _NotAvailableError(f"does not answer like a schema registry: {body[:80]!r}") from error

    def _open(self, url: str, method: str, data: bytes | None, headers: Mapping[str, str]) -> bytes:
        request = urllib.request.Request(url, data, dict(headers), method=method)  # noqa: S310 (checked above)
        with self._opener.open(request, timeout=self._timeout) as response:
            body: bytes = response.read(_MAX_RESPONSE_BYTES)
            return body

    def _refusal(self, error: urllib.error.HTTPError, url: str, what: str) -> Exception:
        """Returns the exception for a response without success."""
        if 400 <= error.code < 500 and error.code not in _TEMPORARY:
            try:
                said = json.loads(error.read(_MAX_RESPONSE_BYTES))
                code, text = int(said["error_code"]), str(said["message"])
            except (ValueError, KeyError, TypeError, OSError):
                code, text = error.code, str(error.reason)
            if error.code == 404:
                return RegistryError(
                    f"the schema registry {url} does not have {what}: {text} ({code})", status=404, code=code
                )
            return RegistryError(
                f"the schema registry {url} refuses {what}: {text} ({code})", status=error.code, code=code
            )
        if error.code == 401 and isinstance(self._auth, ClientCredentials):
            self._auth.forget()
        # A client without the right to read is not the record's fault: the record waits until the rights are right.
        verb = f"refuses access to {what}:" if error.code in (401, 403) else "answers"
        try:
            wait = float(error.headers.get("Retry-After") or 0)
        except ValueError:  # a date
            wait = 0.0
        return _NotAvailableError(f"{verb} {error.code} {error.reason}", wait)

    def _token(self) -> str:
        if not isinstance(self._auth, ClientCredentials):
            assert self._auth is not None
            return self._auth()
        try:
            return self._auth.token(self._post_form)
        except urllib.error.HTTPError as error:
            with error:
                said = f"{error.code} {error.reason}"
        except RegistryError as error:
            said = str(error)
        except (OSError, ValueError, http.client.HTTPException) as error:
            said = str(getattr(error, "reason", error))
        raise _NotAvailableError(f"is not asked, without a token of {self._auth.token_url}: {said}") from None

    def _post_form(self, url: str, form: bytes, headers: dict[str, str]) -> Any:
        fields = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "application/json", **headers}
        return json.loads(self._open(url, "POST", form, fields))

    def _back_off(self, what: str, wanted: float) -> RetryLater:
        with self._lock:
            self._last_error = what
            wait = min(_MAX_RETRY_BACKOFF, max(wanted, _RETRY_BACKOFF * 2**self._failures))
            self._failures = min(self._failures + 1, 10)
            self._retry_at = monotonic() + wait
        return RetryLater(wait, what)


class _NotAvailableError(Exception):
    """One address does not answer, or does not answer now. `wait`: seconds that it asks to be left alone."""

    def __init__(self, what: str, wait: float = 0.0) -> None:
        super().__init__(what)
        self.wait = wait


def _wrong(text: str, setting: str) -> ConfigError:
    return ConfigError(text, setting=setting, location=callsite.caller_location())


def _parse_address(url: object) -> tuple[str, str | None, str | None]:
    """Returns the address without user and password, and these."""
    try:
        parts = urllib.parse.urlsplit(url.strip())  # type: ignore[attr-defined]
        port = f":{parts.port}" if parts.port else ""
    except (ValueError, AttributeError, TypeError) as error:
        raise _wrong(f"Registry({url!r}): {error}", "url") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _wrong(f'Registry({url!r}): the address of a registry is like "http://localhost:8081"', "url")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    user = urllib.parse.unquote(parts.username) if parts.username else None
    password = urllib.parse.unquote(parts.password) if parts.password else None
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}", user, password


def _https_handlers(tls: Mapping[str, Any], urls: Sequence[str]) -> list[urllib.request.BaseHandler]:
    """Returns the handler for https. Raises ConfigError for files that cannot be read."""
    given = {name: value for name, value in tls.items() if value is not None}
    if not any(url.startswith("https:") for url in urls):
        if given:
            raise _wrong(f"Registry({next(iter(given))}=...) is for https, and {urls[0]} is not", next(iter(given)))
        return []
    if ("key" in given or "key_password" in given) and "cert" not in given:
        raise _wrong("Registry(key=...) needs the certificate, too: cert=", "cert")
    context = given.get("context")
    if context is None:
        try:
            context = ssl.create_default_context(cafile=given.get("ca"))
        except OSError as error:
            raise _wrong(f"Registry(ca={given.get('ca')!r}): {error}", "ca") from None
    if "cert" in given:
        try:
            context.load_cert_chain(given["cert"], given.get("key"), given.get("key_password"))
        except OSError as error:
            raise _wrong(f"Registry(cert={given['cert']!r}): {error}", "cert") from None
    return [urllib.request.HTTPSHandler(context=context)]
