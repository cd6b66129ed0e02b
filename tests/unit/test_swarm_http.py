"""The probes' HTTP, without a socket."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from grete._native import HttpProtocol
from grete._swarm.net.probe_server import ProbeProtocol, Response

MAX_HEAD = 8192
"""Maximum bytes of request line and headers."""
GOOD = b"GET /livez HTTP/1.1\r\nHost: a\r\n\r\n"


def split(answer: bytes) -> tuple[int, dict[str, str], Any]:
    """Status, headers, body; what a strict client makes of it."""
    head, _, body = answer.partition(b"\r\n\r\n")
    first, *lines = head.decode("ascii").split("\r\n")
    match = re.fullmatch(r"HTTP/1\.1 ([1-5][0-9][0-9]) [A-Za-z ]+", first)
    assert match, first
    headers = dict(line.split(": ", 1) for line in lines)
    assert len(headers) == len(lines)
    if body:
        assert int(headers["Content-Length"]) == len(body)
    return int(match[1]), headers, json.loads(body) if body else None


def parse(received: bytes) -> tuple[str, str] | bytes | None:
    return HttpProtocol().feed(received)


def echo(method: str, path: str) -> Response:
    return Response(200, {"method": method, "path": path})


def test_a_request_has_a_method_and_a_path() -> None:
    assert parse(GOOD) == ("GET", "/livez")
    assert parse(b"\r\n\n" + GOOD) == ("GET", "/livez"), "empty lines before it are overlooked"
    assert parse(b"GET /livez?verbose#x HTTP/1.0\n\n") == ("GET", "/livez")
    assert parse(b"GET http://node:80/readyz?x HTTP/1.1\r\nhOsT: node\r\n\r\n") == ("GET", "/readyz")
    assert parse(b"GET http://node HTTP/1.1\r\nHost:\r\n\r\n") == ("GET", "/")
    assert parse(b"DELETE * HTTP/1.1\r\nHost: a\r\n\r\n") == ("DELETE", "*")


@pytest.mark.parametrize(
    ("received", "status", "says"),
    [
        (b"\x16\x03\x01\x02\x00", 400, "TLS"),
        (b"\x00", 400, "not HTTP"),
        (b"GET\r\n\r\n", 400, "begins like"),
        (b"GET /a b HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"GET /\xff HTTP/1.1\r\n\r\n", 400, "begins like"),
        (b"PRI * HTTP/2.0\r\n\r\n", 505, "use HTTP/1.1"),
        (b"GET / HTTP/1.2\r\nHost: a\r\n\r\n", 505, "HTTP/1.2"),
        (b"GET / HTTP/1.1\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", 400, "Host"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\x00\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400, "header"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nGET /", 400, "no body"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n" + b"X:y\n" * 100 + b"\r\n", 431, "100 headers"),
        (b"GET / HTTP/1.1\r\nHost: a\r\nX: " + b"y" * MAX_HEAD, 431, str(MAX_HEAD)),
        (b"\n" * MAX_HEAD, 431, str(MAX_HEAD)),
        (b"A" * MAX_HEAD, 431, str(MAX_HEAD)),
    ],
)
def test_what_is_refused(received: bytes, status: int, says: str) -> None:
    answer = parse(received)
    assert isinstance(answer, bytes)
    got, headers, body = split(answer)
    assert (got, headers["Connection"]) == (status, "close")
    assert says in body["error"]


def test_half_a_request_waits_for_the_rest() -> None:
    for length in range(len(GOOD)):
        assert parse(GOOD[:length]) is None


def test_a_head_has_the_length_of_its_body_and_no_body() -> None:
    answer = ProbeProtocol(lambda *_: Response(405, {"error": "no"})).feed(GOOD.replace(b"GET", b"HEAD"))
    assert answer is not None
    status, headers, body = split(answer)
    assert (status, headers["Allow"], headers["Connection"], body) == (405, "GET, HEAD", "close", None)
    assert int(headers["Content-Length"]) == len(b'{"error": "no"}\n')
    assert re.fullmatch(r"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT", headers["Date"])


def test_an_answer_that_fails_is_a_500() -> None:
    def fails(method: str, path: str) -> Response:
        raise KeyError("gone")

    answer = ProbeProtocol(fails).feed(GOOD)
    assert answer is not None
    status, _, body = split(answer)
    assert (status, body) == (500, {"error": "KeyError: 'gone'"})


def test_text_of_nodes_that_is_no_unicode_can_be_said() -> None:
    answer = ProbeProtocol(lambda *_: Response(200, {"handler": "x\udc80"})).feed(GOOD)
    assert answer is not None
    assert split(answer)[2] == {"handler": "x?"}


garbage = st.one_of(
    st.binary(max_size=200),
    st.lists(
        st.sampled_from(
            [b"GET", b"HEAD", b" ", b"/livez", b"/", b"HTTP/1.1", b"\r\n", b"\n", b"Host: a", b":", b"\t", b"\x00"]
        ),
        max_size=30,
    ).map(b"".join),
    st.binary(max_size=60).map(lambda tail: GOOD + tail),
    st.integers(0, len(GOOD) - 1).flatmap(
        lambda at: st.binary(min_size=1, max_size=3).map(lambda junk: GOOD[:at] + junk + GOOD[at:])
    ),
)


@given(garbage, st.lists(st.integers(1, 40), max_size=20))
@example(b"GET / HTTP/1.1\r\nHost:" + b" " * 8000 + b"\x00\r\n\r\n", [])
def test_whatever_comes_in_whatever_pieces_gets_one_answer_or_none(received: bytes, cuts: list[int]) -> None:
    whole, pieces = ProbeProtocol(echo), ProbeProtocol(echo)
    at_once = whole.feed(received)
    in_pieces, at = None, 0
    for cut in [*cuts, len(received)]:
        if in_pieces is None and at < len(received):
            in_pieces = pieces.feed(received[at : at + cut])
            at += cut
    for answer in (at_once, in_pieces):
        if answer is not None:
            assert split(answer)[0] in (200, 400, 431, 505)
    # What is refused early in pieces may be refused for something that comes later otherwise, never accepted.
    assert (at_once is None) == (in_pieces is None)
    if at_once is not None and in_pieces is not None:
        assert (split(at_once)[0] == 200) == (split(in_pieces)[0] == 200)
    if at_once is None:
        ended, late = whole.on_eof(), pieces.on_timeout()
        assert ended is None or split(ended)[0] == 400
        assert late is None or split(late)[0] == 408


@given(st.binary(max_size=3 * MAX_HEAD))
def test_no_request_is_longer_than_a_head_may_be(received: bytes) -> None:
    dialogue = ProbeProtocol(echo)
    for at in range(0, len(received), 4096):
        if dialogue.feed(received[at : at + 4096]) is not None:
            return
    assert len(received) < MAX_HEAD
