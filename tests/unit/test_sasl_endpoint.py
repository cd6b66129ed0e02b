"""Token endpoints: what is asked, and answers of all kinds."""

from __future__ import annotations

import base64
import gzip
import http.server
import json
import logging
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import grete
from grete import _native
from grete._sasl import endpoint as endpoints
from grete._sasl import sources, token
from tests.unit.test_sasl_tokens import fields, jwt

SECRET = "s3cret&"
Handler = http.server.BaseHTTPRequestHandler


class Endpoint:
    """A token endpoint that answers as a test says. `speaks`: writes the whole answer instead."""

    def __init__(self) -> None:
        self.status, self.body = 200, json.dumps({"access_token": jwt(sub="t-1"), "expires_in": 600}).encode()
        self.requests: list[tuple[str, str]] = []
        self.speaks: Callable[[Handler], object] | None = None
        endpoint = self

        class Answers(http.server.BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                endpoint.requests.append((self.headers["Authorization"], form))
                if endpoint.speaks is not None:
                    endpoint.speaks(self)
                    return
                self.send_response(endpoint.status)
                self.send_header("Location", "http://127.0.0.1:1/elsewhere")
                self.end_headers()
                self.wfile.write(endpoint.body)

            def log_message(self, *_: object) -> None:
                """Says nothing."""

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/token"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def source(self, **given: object) -> Callable[[], object]:
        return sources.source_of(fields(endpoint=self.url, **credentials(), **given))[1]


def credentials(client_id: str = "me:1") -> dict[str, Any]:
    return {"client_id": client_id, "client_secret": _native.ClientSecret(client_id, SECRET)}


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    endpoint = Endpoint()
    yield endpoint
    endpoint.server.shutdown()
    endpoint.server.server_close()


def test_client_credentials_are_posted_and_errors_are_kept_apart(endpoint: Endpoint) -> None:
    name, fetch = sources.source_of(fields(endpoint=endpoint.url, scope="kafka", **credentials()))
    assert name == f"the token endpoint {endpoint.url}"
    found = token.from_result(fetch())
    assert isinstance(found.value, _native.NativeToken)  # Python never has its text
    assert (found.value.claims(), found.subject) == ('{"sub": "t-1"}', "t-1")
    assert 590 < found.expires_at - time.time() <= 600
    authorization, form = endpoint.requests[0]
    assert base64.b64decode(authorization.removeprefix("Basic ")) == b"me%3A1:s3cret%26"
    assert form == "grant_type=client_credentials&scope=kafka"
    refusal = json.dumps({"error": "invalid_client", "error_description": "no such client"}).encode()
    for status, body, says in [
        (401, refusal, r"answers 401 .*\(invalid_client: no such client\)"),
        (302, b"", "answers 302"),
        (200, b"<html>", "no JSON"),
        (200, b"", "no JSON"),
        (200, gzip.compress(b"{}"), "no JSON"),
        (200, b"[]", "no access_token"),
        (200, b" " * (1 << 20) + b"{}", "is longer than 1048576 bytes"),
        (500, b"\xff", "answers 500"),
        (500, b"[" * 100_000, "answers 500"),
    ]:
        endpoint.status, endpoint.body = status, body
        with pytest.raises(ValueError, match=says) as caught:
            fetch()
        assert "s3cret" not in str(caught.value)
    _, dead = sources.source_of(fields(endpoint="http://127.0.0.1:1/t", **credentials()))
    with pytest.raises(ValueError, match="does not answer"):
        dead()


def test_an_endpoint_that_repeats_the_secret_shows_none(endpoint: Endpoint) -> None:
    # Not one that the check of all tests looks for: the endpoint shows it.
    text, quoted = "t0ld&", "t0ld%26"
    secret = _native.ClientSecret("me:1", text)
    _, fetch = sources.source_of(fields(endpoint=endpoint.url, client_id="me:1", client_secret=secret))
    header = "Basic " + base64.b64encode(f"me%3A1:{quoted}".encode()).decode()
    endpoint.status = 401
    for repeated in (text, quoted, header):
        endpoint.body = json.dumps({"error": "invalid", "error_description": f"{repeated} is wrong"}).encode()
        with pytest.raises(ValueError, match=r"invalid: .*is wrong") as caught:
            fetch()
        for form in (text, quoted, header.removeprefix("Basic ")):
            assert form not in str(caught.value)


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"


@pytest.mark.parametrize(
    ("speaks", "says"),
    [
        (lambda handler: handler.wfile.write(b"\x00" * 100_000), "does not answer"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\n" + b"A: b\r\n" * 1000), "does not answer"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 200 " + b"x" * 1_000_000), "does not answer"),
        (lambda handler: handler.wfile.write(CHUNKED + b"zz\r\n{}"), "does not answer"),
        (lambda handler: handler.wfile.write(CHUNKED + b"ffffffffff\r\n{}"), "does not answer"),
        (lambda handler: handler.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{}"), "no access_token"),
        (lambda handler: handler.connection.close(), "does not answer"),
    ],
)
def test_answers_that_are_no_http_are_named(endpoint: Endpoint, speaks: Callable[[Handler], object], says: str) -> None:
    endpoint.speaks = speaks
    with pytest.raises(ValueError, match=says):
        endpoint.source()()


def test_a_chunked_answer_is_read(endpoint: Endpoint) -> None:
    body = endpoint.body
    pieces = b"".join(b"%x\r\n%b\r\n" % (len(body[at : at + 7]), body[at : at + 7]) for at in range(0, len(body), 7))
    endpoint.speaks = lambda handler: handler.wfile.write(CHUNKED + pieces + b"0\r\n\r\n")
    assert token.from_result(endpoint.source()()).subject == "t-1"


def test_an_answer_that_drips_has_one_deadline(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "_REQUEST_TIMEOUT", 0.5)
    ended = threading.Event()

    def drip(handler: Handler) -> None:
        handler.wfile.write(b"HTTP/1.1 200 OK\r\n\r\n")
        while not ended.wait(0.05):
            handler.wfile.write(b" ")

    endpoint.speaks = drip
    try:
        with pytest.raises(endpoints.UnavailableError, match=r"no whole answer within 0\.5 s"):
            endpoint.source()()
    finally:
        ended.set()


def test_a_proxy_of_the_environment_is_used_and_gets_no_redirect(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", endpoint.url)
    monkeypatch.delenv("no_proxy", raising=False)
    _, fetch = sources.source_of(fields(endpoint="http://idp.example/token", **credentials()))
    assert token.from_result(fetch()).subject == "t-1"


def test_an_endpoint_without_tls_is_a_warning(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    endpoint.source()()
    assert not caplog.records, "no other machine reads what goes over loopback"
    monkeypatch.setenv("http_proxy", endpoint.url)
    _, fetch = sources.source_of(fields(endpoint="http://idp.example/token", **credentials()))
    fetch()
    fetch()
    (record,) = caplog.records
    assert (record.levelno, "give an address with https" in record.message) == (logging.WARNING, True)


@pytest.mark.parametrize(
    "url",
    [
        "idp/token",
        "ftp://idp/token",
        "https:///token",
        "https://user:s3cret@idp/token",
        "https://:s3cret@idp/token",
        "https://idp:port/token",
        "https://idp:99999/token",
        "https://[::1/token",
        "https://idp/a b",
        "https://idp/\x01",
        "https://id\u00fcp/token",
    ],
)
def test_addresses_that_cannot_be_asked_are_refused_at_the_start(url: str) -> None:
    with pytest.raises(grete.ConfigError, match="no address that can be asked") as caught:
        sources.source_of(fields(endpoint=url, **credentials()))
    assert "s3cret" not in str(caught.value)


def test_what_is_missing_is_named() -> None:
    with pytest.raises(grete.ConfigError, match=r"needs sasl\.oauthbearer\.client\.id"):
        sources.source_of(fields(endpoint="https://idp/token"))
    with pytest.raises(grete.ConfigError, match=r"needs sasl\.oauthbearer\.client\.secret"):
        sources.source_of(fields(endpoint="https://idp/token", client_id="a"))


def test_a_secret_is_compared_and_not_shown() -> None:
    one, same, other = (_native.ClientSecret("a", secret) for secret in ("x1", "x1", "x2"))
    assert one == same
    assert hash(one) == hash(same)
    assert one != other
    assert "x1" not in repr(one) + str(one)
