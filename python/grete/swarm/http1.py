"""As much of HTTP/1.1 as a probe needs: one request without a body, one answer, then the connection ends."""

import json
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger("grete")

MAX_HEAD = 8192
"""Bytes of request line and headers, at most."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(%b) ([!-~]+) HTTP/([0-9])\.([0-9])" % _TOKEN)
_HEADER = re.compile(rb"(%b):[^\x00\r\n]*" % _TOKEN)
_END = re.compile(rb"\n\r?\n")
_ABSOLUTE = re.compile(r"https?://[^/?#]*", re.IGNORECASE)
_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    431: "Request Header Fields Too Large",
    500: "Internal Server Error",
    503: "Service Unavailable",
    505: "HTTP Version Not Supported",
}
_DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


@dataclass(frozen=True, slots=True)
class Request:
    """What is asked for. `path` is without query."""

    method: str
    path: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and what is sent. `allow`: the methods that would do. `text`: the type of a body of bytes; else JSON."""

    status: int
    body: Any
    allow: str | None = None
    text: str | None = None


class HttpDialogue:
    """The protocol of one connection. `answer` may raise: that is a 500."""

    def __init__(self, answer: Callable[[Request], Answer]) -> None:
        self._answer = answer
        self._received = bytearray()

    def feed(self, data: bytes) -> bytes | None:
        """See `Dialogue`."""
        self._received += data
        parsed = parse(bytes(self._received))
        if parsed is None:
            return None
        if isinstance(parsed, Answer):
            return encode(parsed)
        return encode(self._ask(parsed), head=parsed.method == "HEAD")

    def ended(self) -> bytes | None:
        """Half a request is refused; none at all is how port scans and load balancers look whether a port is open."""
        return encode(_bad("the request ends in its middle")) if self._received else None

    def late(self) -> bytes | None:
        """See `Dialogue`."""
        return encode(Answer(408, {"error": "the request was not complete in time"})) if self._received else None

    def _ask(self, request: Request) -> Answer:
        try:
            return self._answer(request)
        except Exception as error:
            logger.exception("no answer to %s %s", request.method, request.path, extra={"event": "swarm.answer.failed"})
            return Answer(500, {"error": f"{type(error).__name__}: {error}"})


def parse(received: bytes) -> Request | Answer | None:
    """The request at the beginning of these bytes, the refusal of it, or None: more are needed. Total."""
    # Empty lines before a request are to be overlooked.
    text = received.lstrip(b"\r\n")
    if text and re.match(_TOKEN, text) is None:
        return _bad("this is not HTTP" + ("; it is TLS, and probes are plain HTTP" if text[0] == 0x16 else ""))
    end = _END.search(text, 0, MAX_HEAD)
    if end is None:
        if len(received) < MAX_HEAD:
            return None
        return Answer(431, {"error": f"request line and headers are longer than {MAX_HEAD} bytes"})
    first, *lines = (line.removesuffix(b"\r") for line in text[: end.start()].split(b"\n"))
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        return _bad("a request begins like GET /livez HTTP/1.1")
    method, target, major, minor = (part.decode() for part in line.groups())
    if major != "1":
        return Answer(505, {"error": f"HTTP/{major}.{minor} is not spoken here; HTTP/1.1 is"})
    hosts = 0
    for one in lines:
        header = _HEADER.fullmatch(one)
        if header is None:
            return _bad("a header is like Name: value")
        hosts += header[1].lower() == b"host"
    if hosts > 1 or (hosts == 0 and minor != "0"):
        return _bad("HTTP/1.1 wants one Host header")
    # A proxy may send the whole address.
    path = _ABSOLUTE.sub("", target, count=1) if not target.startswith("/") else target
    return Request(method, re.split(r"[?#]", path, maxsplit=1)[0] or "/")


def encode(answer: Answer, *, head: bool = False) -> bytes:
    """The answer as it goes over the wire; `head`: without the body, but with its length."""
    body: bytes = answer.body if answer.text else _json(answer.body)
    lines = [
        f"HTTP/1.1 {answer.status} {_REASONS[answer.status]}",
        f"Date: {_date(time.time())}",
        f"Content-Type: {answer.text or 'application/json'}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if answer.allow:
        lines.append(f"Allow: {answer.allow}")
    return "\r\n".join([*lines, "", ""]).encode() + (b"" if head else body)


def _json(body: Any) -> bytes:
    return json.dumps(body, ensure_ascii=False).encode("utf-8", "replace") + b"\n"


def _bad(text: str) -> Answer:
    return Answer(400, {"error": text})


def _date(at: float) -> str:
    """As HTTP writes it, whatever the locale."""
    t = time.gmtime(at)
    return (
        f"{_DAYS[t.tm_wday]}, {t.tm_mday:02d} {_MONTHS[t.tm_mon - 1]} {t.tm_year:04d} "
        f"{t.tm_hour:02d}:{t.tm_min:02d}:{t.tm_sec:02d} GMT"
    )
