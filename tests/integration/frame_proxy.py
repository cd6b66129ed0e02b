"""A proxy that knows frames: it passes, loses, spoils or holds whole requests and answers of one kind."""

from __future__ import annotations

import contextlib
import enum
import random
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Self

from tests.integration.hostile_servers import frame, read_frame
from tests.kafka import KafkaCluster, new_cluster
from tests.kafka.waiting import Deadline

PRODUCE = 0
INIT_PRODUCER_ID = 22
END_TXN = 26


class FrameAction(enum.Enum):
    """What becomes of a frame.

    LOSE: neither it nor what follows on this connection in this direction arrives; the connection stays open.
    CUT: the connection ends here, without the frame. GARBLE: its body becomes noise, its correlation id stays.
    HOLD: it waits, and what follows too, until `FrameProxy.release`.
    """

    PASS = enum.auto()
    DROP = enum.auto()
    DISCONNECT = enum.auto()
    CORRUPT = enum.auto()
    HOLD = enum.auto()


@dataclass(frozen=True)
class Request:
    """A request that a client sent: `number` counts those of its kind since `FrameProxy.treat`, from 0."""

    api: int
    number: int
    correlation: int
    # Without the correlation id: so two attempts of the same bytes are equal.
    content: bytes


Rule = Callable[[Request], FrameAction]


def passing(_request: Request) -> FrameAction:
    return FrameAction.PASS


def always(action: FrameAction) -> Rule:
    return lambda _request: action


def first(count: int, action: FrameAction) -> Rule:
    """The first `count` requests; the others pass."""
    return lambda request: action if request.number < count else FrameAction.PASS


@dataclass(eq=False)
class _Link:
    """One client's connection and its twin to the broker."""

    client: socket.socket
    broker: socket.socket
    # Requests whose answers are to come, by their correlation ids.
    pending: dict[int, Request] = field(default_factory=dict)
    pumps: int = 2

    def cut(self) -> None:
        for end in (self.client, self.broker):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.client.close()
        self.broker.close()


class FrameProxy:
    """Between clients and one broker; rules for one kind of request at a time, all others pass."""

    def __init__(self) -> None:
        self.target: tuple[str, int] | None = None
        self.requests: list[Request] = []
        self._api = PRODUCE
        self._on_request: Rule = passing
        self._on_answer: Rule = passing
        self._changed = threading.Condition()
        # What is held waits for the next.
        self._era = 0
        self._noise = random.Random(5)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._links: set[_Link] = set()
        self._threads: list[threading.Thread] = []
        self._acceptor = threading.Thread(target=self._accept, name="frame-proxy")

    @property
    def address(self) -> str:
        """Where clients come in; what the broker says of itself leads here, too."""
        return f"127.0.0.1:{self.port}"

    def treat(self, *, requests: Rule = passing, answers: Rule = passing, api: int = PRODUCE) -> None:
        """New rules, for requests of `api` that come from now on; what is lost stays lost, what is held is let go."""
        with self._changed:
            self.requests = []
            self._api, self._on_request, self._on_answer = api, requests, answers
            self._era += 1
            self._changed.notify_all()

    def release(self) -> None:
        """Let go of all that is held, and hold nothing more."""
        with self._changed:
            self._on_request = self._on_answer = passing
            self._era += 1
            self._changed.notify_all()

    def wait_requests(self, count: int, seconds: float = 30.0) -> list[Request]:
        """Until so many requests of the kind have come since `treat`."""
        with self._changed:
            came = self._changed.wait_for(lambda: len(self.requests) >= count, seconds)
            assert came, f"{len(self.requests)} of {count} requests of kind {self._api} came within {seconds:g} s"
            return self.requests[:]

    def cut_all(self) -> None:
        """End all connections."""
        with self._changed:
            for link in self._links:
                link.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            assert self.target is not None
            try:
                broker = socket.create_connection(self.target, timeout=5.0)
            except OSError:
                client.close()
                continue
            broker.settimeout(None)
            for end in (client, broker):
                end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(client, broker)
            with self._changed:
                self._links.add(link)
                self._threads = [thread for thread in self._threads if thread.is_alive()]
                for pump in (self._requests, self._answers):
                    thread = threading.Thread(target=self._pump, args=(pump, link), name="frame-proxy-pump")
                    self._threads.append(thread)
                    thread.start()

    def _pump(self, pump: Callable[[_Link], None], link: _Link) -> None:
        with contextlib.suppress(OSError):
            pump(link)
        with self._changed:
            link.cut()
            link.pumps -= 1
            if link.pumps == 0:
                self._links.discard(link)
                link.close()

    def _requests(self, link: _Link) -> None:
        open_way = True
        while True:
            body = read_frame(link.client)
            api, _, correlation = struct.unpack_from(">hhi", body)
            action = FrameAction.PASS
            with self._changed:
                number = len(self.requests) if api == self._api else 0
                request = Request(api, number, correlation, body[:4] + body[8:])
                if api == self._api:
                    self.requests.append(request)
                    self._changed.notify_all()
                    action = self._on_request(request)
                    link.pending[correlation] = request
            if action is FrameAction.DISCONNECT:
                return
            if action is FrameAction.HOLD:
                self._hold()
            open_way = open_way and action is not FrameAction.DROP
            if open_way:
                link.broker.sendall(struct.pack(">i", len(body)) + body)

    def _answers(self, link: _Link) -> None:
        open_way = True
        while True:
            body = read_frame(link.broker)
            (correlation,) = struct.unpack_from(">i", body)
            request = link.pending.pop(correlation, None)
            with self._changed:
                action = self._on_answer(request) if request is not None else FrameAction.PASS
            if action is FrameAction.DISCONNECT:
                return
            if action is FrameAction.HOLD:
                self._hold()
            open_way = open_way and action is not FrameAction.DROP
            if action is FrameAction.CORRUPT:
                link.client.sendall(frame(correlation, self._noise.randbytes(max(len(body) - 4, 40))))
            elif open_way:
                link.client.sendall(struct.pack(">i", len(body)) + body)

    def _hold(self) -> None:
        with self._changed:
            era = self._era
            self._changed.wait_for(lambda: self._era != era)

    def __enter__(self) -> Self:
        self._acceptor.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.release()
        with contextlib.suppress(OSError):
            # Wakes the thread that sits in accept.
            self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join(10.0)
        self._listener.close()
        self.cut_all()
        deadline = Deadline(10.0)
        for thread in self._threads:
            thread.join(deadline.left)
            assert not thread.is_alive()


@contextlib.contextmanager
def proxied_cluster(**properties: object) -> Iterator[tuple[KafkaCluster, FrameProxy]]:
    """A broker whose advertised address is a proxy's."""
    with FrameProxy() as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://{proxy.address}"}
        cluster = new_cluster(properties={**advertised, **properties})

        def point() -> None:
            proxy.target = ("127.0.0.1", cluster.nodes[1].port.number)

        cluster.before_start = point
        with cluster:
            yield cluster, proxy
