"""Token endpoint: OAuth 2.0 client credentials (RFC 6749, section 4.4), as KIP-768 and librdkafka's `oidc` have them.

Neither the client's secret nor the token becomes a text or bytes of Python, whose memory is not overwritten: the header
with the secret is a bytearray, and so is the answer. Both are overwritten.
"""

import http.client
import io
import ipaddress
import json
import logging
import socket
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable
from typing import Any

from grete import _native
from grete.errors import ConfigError

logger = logging.getLogger("grete.client")

URL = "sasl.oauthbearer.token.endpoint.url"

# Seconds for one request, from the connection to the last byte of the answer.
_REQUEST_TIMEOUT = 20.0
_MAX_RESPONSE_BYTES = 1 << 20
_MAX_ERROR_BYTES = 1 << 14
# Stands for the secret in the headers of a request, until the request is sent.
_PLACEHOLDER = "client-secret"
# SSL_OP_CLEANSE_PLAINTEXT of OpenSSL 3: its buffers of what was read are overwritten.
_CLEANSE_PLAINTEXT = 2

# Errors of the system that a restart of something else does not end.
_LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError, ssl.SSLCertVerificationError)
# Answers of a token endpoint that another request may not get.
_PASSING_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class UnavailableError(ValueError):
    """Failure of a source that passes by itself: the source is not reached, or is overloaded."""


def passes(error: BaseException) -> bool:
    """Returns whether a source that failed so may work again without a change of settings or code."""
    if isinstance(error, urllib.error.URLError) and isinstance(error.reason, BaseException):
        error = error.reason
    return isinstance(error, (UnavailableError, OSError)) and not isinstance(error, _LASTING)


def source_of(fields: dict[str, Any]) -> tuple[str, Callable[[], object]]:
    """Returns the name of the source and a function that fetches a token. Raises ConfigError."""
    url, client_id, secret = fields["endpoint"], fields["client_id"], fields["client_secret"]
    parts = _split(url)
    if not client_id or not secret:
        missing = "sasl.oauthbearer.client.secret" if client_id else "sasl.oauthbearer.client.id"
        raise ConfigError(f"{URL} needs {missing}", setting=missing)
    form = {"grant_type": "client_credentials"} | ({"scope": fields["scope"]} if fields["scope"] else {})
    request = urllib.request.Request(  # noqa: S310 (checked above)
        url,
        urllib.parse.urlencode(form).encode(),
        {
            "Authorization": _PLACEHOLDER,
            "Content-Type": "application/x-www-form-urlencoded",
            "Accept": "application/json",
        },
    )
    name = f"the token endpoint {parts.scheme}://{parts.netloc}{parts.path}"
    exposes = parts.scheme == "http" and not _is_loopback(parts.hostname or "")
    warned = threading.Event()

    def fetch() -> object:
        if exposes and not warned.is_set():
            warned.set()
            logger.warning(
                "%s is asked without TLS, so others on the way can read the client's secret and the token: give an "
                "address with https",
                name,
            )
        return _fetch(request, secret)

    return name, fetch


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _split(url: str) -> urllib.parse.SplitResult:
    """Returns the parts of the address. Raises ConfigError without the address, which may hold a password."""
    try:
        parts = urllib.parse.urlsplit(url)
        usable = parts.scheme in ("http", "https") and parts.hostname and "@" not in parts.netloc
        usable = usable and parts.port != 0 and url.isascii() and url.isprintable() and " " not in url
    except ValueError:
        usable = False
    if not usable:
        raise ConfigError(
            f"{URL} is no address that can be asked: give one like https://idp.example/oauth2/token, without a user",
            setting=URL,
        )
    return parts


def _fetch(request: urllib.request.Request, secret: _native.ClientSecret) -> object:
    answer = bytearray(_MAX_RESPONSE_BYTES + 1)
    try:
        length = _ask(request, secret, answer)
        if length > _MAX_RESPONSE_BYTES:
            raise ValueError(f"its answer is longer than {_MAX_RESPONSE_BYTES} bytes")
        token, life = _native.NativeToken.of_answer(answer, length)
    finally:
        answer[:] = bytes(len(answer))
    return {"access_token": token, "expires_in": life}


def _ask(request: urllib.request.Request, secret: _native.ClientSecret, answer: bytearray) -> int:
    """Reads the body of a successful response into `answer`, and returns its length. Raises ValueError."""
    streams: list[_Stream] = []
    opener = urllib.request.build_opener(_NoRedirect(), _Http(secret, streams), _Https(secret, streams))
    try:
        with opener.open(request, timeout=_REQUEST_TIMEOUT) as response, memoryview(answer) as room:
            length = 0
            while length < len(room) and (count := response.readinto(room[length:])):
                length += count
            return length
    except urllib.error.HTTPError as error:
        with error:
            kind = UnavailableError if error.code in _PASSING_STATUS else ValueError
            text = secret.mask(f"{error.reason}{_said(error)}")
            raise kind(f"it answers {error.code} {text}") from None
    except (OSError, http.client.HTTPException) as error:
        kind = UnavailableError if passes(error) or isinstance(error, http.client.HTTPException) else ValueError
        raise kind(f"it does not answer: {secret.mask(_reason(error))}") from None
    finally:
        for stream in streams:
            stream.wipe()


def _reason(error: Exception) -> str:
    reason = getattr(error, "reason", error)
    if isinstance(reason, TimeoutError):
        return f"no whole answer within {_REQUEST_TIMEOUT:g} s"
    return f"{reason}" or type(reason).__name__


def _said(error: urllib.error.HTTPError) -> str:
    """Returns `error` and `error_description` of RFC 6749, section 5.2."""
    try:
        said = json.loads(error.read(_MAX_ERROR_BYTES))
        texts = [str(said[name])[:200] for name in ("error", "error_description") if said.get(name)]
    except (ValueError, TypeError, AttributeError, OSError, RecursionError, http.client.HTTPException):
        return ""
    return f" ({': '.join(texts)})" if texts else ""


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Handler that follows no redirects, because the target would get the client's secret, too."""

    def redirect_request(self, *_: Any) -> None:
        """Makes the redirect an error."""


class _Stream(io.RawIOBase):
    """Response of a server as a file, with one deadline for all of it. `wipe` overwrites what it has read ahead."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._deadline = deadline
        self._ahead = bytearray(8192)
        self._start = self._end = 0

    def makefile(self, _mode: str) -> "_Stream":
        """Gives an HTTPResponse its file."""
        return self

    def _fill(self) -> int:
        if self._start == self._end:
            left = self._deadline - time.monotonic()
            if left <= 0:
                raise TimeoutError
            self._sock.settimeout(left)
            self._start, self._end = 0, self._raw.readinto(self._ahead) or 0
        return self._end - self._start

    def readline(self, limit: int | None = -1) -> bytes:
        """Reads a line of the head, which has no secret."""
        line = bytearray()
        most = limit if limit is not None and limit >= 0 else 1 << 16
        while len(line) < most and not line.endswith(b"\n") and self._fill():
            at = self._ahead.find(b"\n", self._start, self._end)
            end = min(self._end if at < 0 else at + 1, self._start + most - len(line))
            line += self._ahead[self._start : end]
            self._start = end
        return bytes(line)

    def readinto(self, target: Any) -> int:
        """Reads until `target` is full or the stream ends: an HTTPResponse takes less for a broken chunk."""
        with memoryview(target) as view:
            read = 0
            while read < len(view) and (ready := self._fill()):
                count = min(ready, len(view) - read)
                view[read : read + count] = memoryview(self._ahead)[self._start : self._start + count]
                self._start += count
                read += count
            return read

    def read(self, size: int = -1) -> bytes:
        """Reads the text of an error."""
        buffer = bytearray(size if 0 <= size <= _MAX_ERROR_BYTES else _MAX_ERROR_BYTES)
        return bytes(buffer[: self.readinto(buffer)])

    def close(self) -> None:
        """Closes the file; the socket closes with its last file."""
        self._raw.close()
        super().close()

    def wipe(self) -> None:
        """Overwrites what was read ahead."""
        self._ahead[:] = bytes(len(self._ahead))


def _connection(
    base: type[http.client.HTTPConnection], secret: _native.ClientSecret, streams: list[_Stream]
) -> type[http.client.HTTPConnection]:
    """Returns a class of connections that put the secret into what they send, and read by a `_Stream`."""
    deadline = time.monotonic() + _REQUEST_TIMEOUT

    class Response(http.client.HTTPResponse):
        def __init__(self, sock: socket.socket, *args: Any, **options: Any) -> None:
            streams.append(_Stream(sock, deadline))
            super().__init__(streams[-1], *args, **options)  # type: ignore[arg-type]

    class Connection(base):  # type: ignore[valid-type, misc]
        response_class = Response

        def send(self, data: Any) -> None:
            head, found, tail = bytes(data).partition(f"Authorization: {_PLACEHOLDER}".encode())
            if not found:
                super().send(data)
                return
            head += b"Authorization: "
            value = secret.authorization()
            # Of its whole length at once: a bytearray that grows leaves copies.
            message = bytearray(len(head) + len(value) + len(tail))
            message[: len(head)] = head
            message[len(head) : len(head) + len(value)] = value
            message[len(head) + len(value) :] = tail
            try:
                super().send(message)
            finally:
                message[:] = bytes(len(message))
                value[:] = bytes(len(value))

    return Connection


class _Http(urllib.request.HTTPHandler):
    def __init__(self, secret: _native.ClientSecret, streams: list[_Stream]) -> None:
        super().__init__()
        self._connection = _connection(http.client.HTTPConnection, secret, streams)

    def http_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Opens a connection of its own class."""
        return self.do_open(self._connection, req)


class _Https(urllib.request.HTTPSHandler):
    def __init__(self, secret: _native.ClientSecret, streams: list[_Stream]) -> None:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["http/1.1"])
        context.options |= _CLEANSE_PLAINTEXT
        super().__init__(context=context)
        self._tls_context = context
        self._connection = _connection(http.client.HTTPSConnection, secret, streams)

    def https_open(self, req: urllib.request.Request) -> http.client.HTTPResponse:
        """Opens a connection of its own class."""
        return self.do_open(self._connection, req, context=self._tls_context)
