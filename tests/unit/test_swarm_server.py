"""Who asks badly, slowly, too much or not at all costs the supervisor nothing but a connection."""

from __future__ import annotations

import errno
import os
import resource
import select
import socket
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from grete._swarm.control.server import MAX_REQUEST, ControlProtocol
from grete._swarm.net import connection, server
from grete._swarm.net.connection import Connection, RequestProtocol
from grete._swarm.net.server import MAX_CONNECTIONS, Server
from tests.unit.fake_swarm import drive, talk


class Line:
    """A dialogue that answers a line with the line; "big" with a megabyte, "raise" with an error."""

    def __init__(self) -> None:
        self.received = b""

    def feed(self, data: bytes) -> bytes | None:
        self.received += data
        line, newline, _ = self.received.partition(b"\n")
        if line == b"raise":
            raise RuntimeError("planted")
        if line == b"big":
            return b"x" * (8 << 20)
        return line if newline else None

    def on_eof(self) -> bytes | None:
        return b"ended" if self.received else None

    def on_timeout(self) -> bytes | None:
        return b"late" if self.received else None


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Listening:
    """A server at a loopback port, with a clock that stands still."""

    server: Server
    clock: Clock
    address: tuple[str, int]
    clients: list[socket.socket]

    def connect(self) -> socket.socket:
        client = socket.create_connection(self.address, timeout=10)
        self.clients.append(client)
        before = len(self.server._connections)
        drive(self.server, lambda: len(self.server._connections) > before or before == MAX_CONNECTIONS)
        return client

    def later(self, seconds: float) -> None:
        self.clock.now += seconds
        self.server.handle_events(self.server.fd, 0)

    @property
    def open(self) -> int:
        return len(self.server._connections)


@pytest.fixture
def listening() -> Iterator[Listening]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        clock = Clock()
        made = Server([listener], lambda _: Line(), clock)
        listening = Listening(made, clock, listener.getsockname(), [])
        yield listening
        made.close()
        for client in listening.clients:
            client.close()


def test_one_descriptor_wakes_for_all_and_rests_when_nothing_is_to_be_done(listening: Listening) -> None:
    made = listening.server
    assert not select.select([made.fd], [], [], 0)[0]
    assert made.deadline() is None
    client = socket.create_connection(listening.address, timeout=10)
    assert select.select([made.fd], [], [], 10)[0]
    assert talk(made, client, b"hello\n") == b"hello"
    drive(made, lambda: listening.open == 0)
    assert not select.select([made.fd], [], [], 0)[0]
    assert made.deadline() is None


def test_a_second_request_gets_no_answer_and_resets_nothing(listening: Listening) -> None:
    client = socket.create_connection(listening.address, timeout=10)
    assert talk(listening.server, client, b"one\ntwo\n" + b"three\n" * 2000) == b"one"


def test_half_a_request_and_the_end(listening: Listening) -> None:
    client = socket.create_connection(listening.address, timeout=10)
    assert talk(listening.server, client, b"hel", half_close=True) == b"ended"
    assert talk(listening.server, socket.create_connection(listening.address, timeout=10), half_close=True) == b""
    drive(listening.server, lambda: listening.open == 0)


def test_who_dribbles_has_as_long_as_everybody(listening: Listening) -> None:
    client = listening.connect()
    for _ in range(9):
        client.send(b"x")
        listening.later(0.5)
    drive(listening.server, lambda: next(iter(listening.server._connections.values()))._protocol.received == b"x" * 9)  # type: ignore[attr-defined]
    assert listening.server.deadline() == pytest.approx(1000.0 + connection.REQUEST_TIMEOUT)
    listening.later(0.5)
    assert talk(listening.server, client) == b"late"
    drive(listening.server, lambda: listening.open == 0)


def test_who_says_nothing_is_closed_without_a_word(listening: Listening) -> None:
    client = listening.connect()
    listening.later(connection.REQUEST_TIMEOUT)
    assert client.recv(10) == b""
    assert listening.open == 0


def test_who_does_not_read_is_closed_in_time(listening: Listening) -> None:
    client = listening.connect()
    client.sendall(b"big\n")
    drive(listening.server, lambda: any(one.responded for one in listening.server._connections.values()))
    assert listening.open == 1
    assert not select.select([listening.server.fd], [], [], 0)[0], "a full socket is no reason to wake up"
    listening.later(connection.RESPONSE_TIMEOUT)
    assert listening.open == 0
    client.close()


def test_who_reads_slowly_gets_all(listening: Listening) -> None:
    client = socket.create_connection(listening.address, timeout=10)
    assert talk(listening.server, client, b"big\n") == b"x" * (8 << 20)


def test_who_does_not_close_is_closed(listening: Listening) -> None:
    client = listening.connect()
    client.sendall(b"hello\n")
    drive(listening.server, lambda: any(one.responded for one in listening.server._connections.values()))
    assert client.recv(10) == b"hello"
    assert client.recv(10) == b""
    assert listening.open == 1
    listening.later(connection.LINGER_TIMEOUT)
    assert listening.open == 0


def test_who_goes_on_sending_after_the_answer_is_cut_off(listening: Listening) -> None:
    client = listening.connect()
    client.sendall(b"hello\n")
    client.setblocking(False)

    def cut() -> bool:
        try:
            client.send(b"x" * 4096)
        except BlockingIOError:
            return False
        except ConnectionError:
            return True
        return False

    drive(listening.server, cut)
    assert listening.open == 0


def test_who_resets_is_forgotten(listening: Listening) -> None:
    client = listening.connect()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
    client.close()
    drive(listening.server, lambda: listening.open == 0)


def test_too_many_cost_the_oldest_that_has_not_said_what_it_wants(listening: Listening) -> None:
    reading = listening.connect()
    reading.sendall(b"big\n")
    drive(listening.server, lambda: any(one.responded for one in listening.server._connections.values()))
    idle = []
    for _ in range(MAX_CONNECTIONS - 1):
        listening.clock.now += 0.01
        idle.append(listening.connect())
    assert listening.open == MAX_CONNECTIONS
    assert talk(listening.server, socket.create_connection(listening.address, timeout=10), b"hello\n") == b"hello"
    assert idle[0].recv(1) == b"", "the one that has waited longest"
    idle[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        idle[1].recv(1)
    assert any(one.responded for one in listening.server._connections.values()), "who gets an answer is left alone"
    for client in (reading, *idle):
        client.close()


def test_a_dialogue_that_fails_ends_its_connection_alone(
    listening: Listening, caplog: pytest.LogCaptureFixture
) -> None:
    other = listening.connect()
    client = socket.create_connection(listening.address, timeout=10)
    assert talk(listening.server, client, b"raise\n") == b""
    assert "planted" in caplog.text
    assert talk(listening.server, other, b"hello\n") == b"hello"


def test_without_descriptors_left_it_rests_and_comes_back(listening: Listening) -> None:
    client = socket.socket()
    client.settimeout(10)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    taken = [os.dup(0)]
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (taken[0] + 1, hard))
        client.connect(listening.address)
        assert select.select([listening.server.fd], [], [], 10)[0]
        listening.server.handle_events(listening.server.fd, select.EPOLLIN)
        assert not select.select([listening.server.fd], [], [], 0)[0], "it would be woken for ever"
        assert listening.server.deadline() == pytest.approx(1001.0)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        os.close(taken[0])
    listening.later(1.0)
    assert talk(listening.server, client, b"hello\n") == b"hello"


def test_an_accept_that_fails_otherwise_is_nothing() -> None:
    class Aborted(socket.socket):
        def accept(self) -> tuple[socket.socket, object]:
            raise ConnectionAbortedError(errno.ECONNABORTED, "gone")

    listener = Aborted()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    made = Server([listener], lambda _: Line())
    with socket.create_connection(listener.getsockname()):
        assert select.select([made.fd], [], [], 10)[0]
        made.handle_events(made.fd, select.EPOLLIN)
    assert made.deadline() is None
    made.close()


def test_whom_it_does_not_admit_it_closes() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Server([listener], lambda _: None)
        assert talk(made, socket.create_connection(listener.getsockname(), timeout=10)) == b""
        made.close()


def test_who_is_gone_before_it_is_known_is_nothing() -> None:
    def gone(peer: socket.socket) -> RequestProtocol | None:
        raise OSError(errno.ENOTCONN, "gone")

    with socket.create_server(("127.0.0.1", 0)) as listener:
        made = Server([listener], gone)
        assert talk(made, socket.create_connection(listener.getsockname(), timeout=10)) == b""
        made.close()


def test_where_the_kernel_watches_no_more_it_goes_on(listening: Listening, caplog: pytest.LogCaptureFixture) -> None:
    class Full:
        """fs.epoll.max_user_watches is reached."""

        closed = False

        def __init__(self, epoll: select.epoll) -> None:
            self.poll, self.unregister, self.close = epoll.poll, epoll.unregister, epoll.close

        def register(self, fd: int, mask: int) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

    made = listening.server
    epoll = made._epoll
    made._epoll = Full(epoll)  # type: ignore[assignment]
    client = socket.create_connection(listening.address, timeout=10)
    assert talk(made, client) == b""
    assert listening.open == 0
    assert "No space left" in caplog.text
    made._epoll = epoll
    assert talk(made, socket.create_connection(listening.address, timeout=10), b"hello\n") == b"hello"


def test_a_closed_one_does_nothing(listening: Listening) -> None:
    client = listening.connect()
    assert len(listening.server.fds()) == 3
    assert all(os.fstat(fd) for fd in listening.server.fds())
    listening.server.close()
    listening.server.close()
    listening.server.handle_events(0, 0)
    assert listening.server.fds() == []
    assert listening.server.deadline() is None
    assert client.recv(1) == b""


def test_a_child_that_holds_a_connection_open_does_not_keep_the_parent_awake(listening: Listening) -> None:
    client = listening.connect()
    copies = [os.dup(fd) for fd in listening.server._connections]  # as a fork leaves them for a moment
    assert talk(listening.server, client, b"hello\n") == b"hello"
    drive(listening.server, lambda: listening.open == 0)
    assert not select.select([listening.server.fd], [], [], 0)[0]
    for copy in copies:
        os.close(copy)


requests = st.one_of(
    st.binary(max_size=100),
    st.text(max_size=50).map(str.encode),
    st.sampled_from(
        [b'{"do":"status"}\n', b"[" * 4000 + b"\n", b"1\n", b"null\n", b'{"do":["status"]}\n', b'{"a":NaN}\n']
    ),
    st.integers(0, 3 * MAX_REQUEST).map(lambda size: b'"' + b"x" * size + b'"\n'),
)


@given(requests, st.booleans())
def test_whatever_the_control_socket_is_sent_it_answers_with_an_object_or_waits(
    request: bytes, half_close: bool
) -> None:
    import json

    def answer(asked: object) -> dict[str, object]:
        return {"got": asked}

    dialogue: RequestProtocol = ControlProtocol(answer)
    said = None
    for at in range(0, len(request), 1000):
        said = said or dialogue.feed(request[at : at + 1000])
    if said is None and half_close:
        said = dialogue.on_eof()
        assert (said is None) == (request == b"")
    elif said is None:
        said = dialogue.on_timeout()
    if said is not None:
        content = json.loads(said)
        assert isinstance(content, dict)
        assert set(content) in ({"got"}, {"error"})
        assert said.endswith(b"\n")
        assert said.count(b"\n") == 1


@given(st.lists(st.sampled_from(["send", "step", "late", "end", "read"]), max_size=30))
def test_a_connection_is_over_sooner_or_later_whatever_happens(events: list[str]) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    theirs.setblocking(False)
    one, now = Connection(ours, Line(), 0.0), 0.0
    with ours, theirs:
        for event in events:
            now += 0.1
            try:
                if event == "send":
                    theirs.send(b"big\n")
                elif event == "read":
                    theirs.recv(1 << 20)
                elif event == "end":
                    theirs.shutdown(socket.SHUT_WR)
            except OSError:
                pass
            if one.is_done:
                return
            if event == "late":
                one.on_timeout(now)
            elif event == "step":
                one.step(now)
            assert one.interest in (select.EPOLLIN, select.EPOLLOUT)
        limit = connection.REQUEST_TIMEOUT + connection.RESPONSE_TIMEOUT + connection.LINGER_TIMEOUT
        assert one.deadline <= now + limit
        for _ in range(2):
            if not one.is_done:
                one.on_timeout(one.deadline)
        assert one.is_done or one.responded
        if not one.is_done:
            one.on_timeout(one.deadline)
        assert one.is_done


def test_the_limits_are_those_that_are_documented() -> None:
    assert (server.MAX_CONNECTIONS, connection.REQUEST_TIMEOUT, MAX_REQUEST) == (16, 5.0, 4096)
