"""Garbage instead of Kafka: typed errors and new connections, within a time, and never a hang."""

from __future__ import annotations

import contextlib
import http.server
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from itertools import pairwise

import pytest

import grete
from tests.integration import hostile_servers
from tests.integration.topic_reader import consumer, offsets, reached, take
from tests.kafka import KafkaCluster, eventually, fill, new_cluster, value_of
from tests.kafka.waiting import Deadline

pytestmark = pytest.mark.timeout(90)

# Short limits, so that a server which never answers is given up within a test's time.
QUICK = {
    "request.timeout.ms": 700,
    "socket.connection.setup.timeout.ms": 700,
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
}


def client(address: str, **settings: object) -> grete.client.Consumer:
    return grete.client.Consumer({"bootstrap.servers": address, **QUICK, **settings})


@pytest.mark.parametrize(
    "behaviour",
    [
        hostile_servers.silence,
        hostile_servers.close_at_once,
        hostile_servers.garbage,
        hostile_servers.half_frame,
        hostile_servers.half_frame_then_close,
        hostile_servers.wrong_correlation,
        hostile_servers.huge_frame,
        hostile_servers.negative_frame,
        hostile_servers.huge_array,
        hostile_servers.garbage_metadata,
    ],
    ids=lambda behaviour: behaviour.__name__,
)
@pytest.mark.parametrize("how", ["assign", "subscribe"])
def test_a_server_that_is_no_broker(behaviour: hostile_servers.Behaviour, how: str) -> None:
    with hostile_servers.Server(behaviour) as server:
        settings = {"group.id": "g"} if how == "subscribe" else {}
        reader = client(server.address, **settings)
        try:
            # The network thread may have found out before it answers. Then `poll` says so again.
            with contextlib.suppress(grete.NotKafkaError):
                if how == "subscribe":
                    reader.subscribe(["orders"])
                else:
                    reader.assign([("orders", 0, 0)])
            deadline = Deadline(30.0)
            while server.connections < 4:
                assert not deadline.over, f"only {server.connections} connections"
                started = time.monotonic()
                try:
                    assert not len(reader.poll(timeout=0.2))
                except grete.GreteError as error:
                    if isinstance(error, grete.NotKafkaError):
                        break
                assert time.monotonic() - started < 5.0, "poll must keep its time"
        finally:
            started = time.monotonic()
            reader.close()
            assert time.monotonic() - started < 10.0, "close must not wait for a server that does not answer"


@pytest.mark.parametrize(
    ("behaviour", "looks_like"), [(hostile_servers.http, "HTTP"), (hostile_servers.tls_alert, "TLS")]
)
def test_says_what_it_looks_like(behaviour: hostile_servers.Behaviour, looks_like: str) -> None:
    with hostile_servers.Server(behaviour) as server, client(server.address) as reader:

        def read() -> None:
            reader.assign([("orders", 0, 0)])
            eventually(lambda: len(reader.poll(timeout=0.5)), 20.0, "the error")

        with pytest.raises(grete.NotKafkaError, match=looks_like) as caught:
            read()
        assert server.address in str(caught.value)


def test_the_port_of_a_web_server_that_waits_for_a_line_is_recognized_at_once() -> None:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler)
    thread = threading.Thread(target=server.serve_forever, name="web")
    thread.start()
    try:
        host, port = server.server_address[:2]
        with client(f"{host!s}:{port}") as reader:

            def read() -> None:
                reader.assign([("orders", 0, 0)])
                eventually(lambda: len(reader.poll(timeout=0.5)), 20.0, "the error")

            started = time.monotonic()
            with pytest.raises(grete.NotKafkaError, match="answers like an HTTP server"):
                read()
            assert time.monotonic() - started < 2.0
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_refused_port_is_an_outage_and_no_error(topic: str) -> None:
    with hostile_servers.Server(hostile_servers.silence) as server:
        address = server.address
    with client(address) as reader:
        reader.assign([(topic, 0, 0)])
        started = time.monotonic()
        assert not len(reader.poll(timeout=1.0))
        assert 0.9 <= time.monotonic() - started < 5.0


@pytest.mark.kafka
def test_one_real_broker_among_impostors_is_enough(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 100)
    with (
        hostile_servers.Server(hostile_servers.http) as web,
        hostile_servers.Server(hostile_servers.silence) as mute,
        hostile_servers.Server(hostile_servers.garbage) as noise,
    ):
        addresses = f"{web.address},{mute.address},{noise.address},{kafka.bootstrap_servers}"
        with client(addresses) as reader:
            reader.assign([(topic, 0, 0)])
            rows: dict[tuple[str, int], list[grete.Message]] = {}
            eventually(lambda: take(reader, rows, 0.25) and reached(reader, {(topic, 0): 100}), 30.0, "100 records")
    assert offsets(rows[topic, 0]) == list(range(100))


BehindProxy = tuple[KafkaCluster, hostile_servers.Proxy]


@pytest.fixture(scope="module")
def behind_proxy() -> Iterator[BehindProxy]:
    """A broker whose advertised address is a proxy's."""
    with hostile_servers.Proxy() as proxy:
        advertised = {"advertised.listeners": f"PLAINTEXT://127.0.0.1:{proxy.port}"}
        cluster = new_cluster(properties=advertised)
        # The harness itself talks to the broker through the proxy, too, once it knows where that is.
        with _pointed(cluster, proxy):
            yield cluster, proxy


def _pointed(cluster: KafkaCluster, proxy: hostile_servers.Proxy) -> KafkaCluster:
    cluster.before_start = lambda: setattr(proxy, "target", ("127.0.0.1", cluster.nodes[1].port.number))
    return cluster


How = Callable[[bytes, random.Random], bytes | None]


class Mischief:
    """Spoils one chunk in `every`, in the given way; counts what it did."""

    def __init__(self, how: How, every: int, seed: int) -> None:
        self.done = 0
        self._how = how
        self._every = every
        self._random = random.Random(seed)

    def __call__(self, data: bytes) -> bytes | None:
        if self._random.randrange(self._every):
            return data
        self.done += 1
        return self._how(data, self._random)


def cut(_data: bytes, _random: random.Random) -> bytes | None:
    return None


def cut_in_the_middle(data: bytes, random: random.Random) -> bytes | None:
    return data[: random.randrange(1, len(data) + 1)]


def flip_a_bit(data: bytes, random: random.Random) -> bytes | None:
    """In a value, where the batch's checksum finds it. Kafka's headers have none: a broker that says "hold back for
    five minutes" by a flipped bit is obeyed.
    """
    for _ in range(100):
        at = random.randrange(len(data))
        around = data[max(0, at - 4) : at + 5]
        if len(around) == 9 and all((after - before) % 256 == 1 for before, after in pairwise(around)):
            return data[:at] + bytes([data[at] ^ (1 << random.randrange(8))]) + data[at + 1 :]
    return data


def insert_noise(data: bytes, random: random.Random) -> bytes | None:
    at = random.randrange(len(data))
    return data[:at] + random.randbytes(random.randrange(1, 50)) + data[at:]


SPOILERS = [cut, cut_in_the_middle, flip_a_bit, insert_noise]


@pytest.mark.kafka
@pytest.mark.timeout(150)
@pytest.mark.parametrize("how", SPOILERS, ids=lambda how: how.__name__)
def test_every_record_arrives_once_over_a_spoilt_connection(behind_proxy: BehindProxy, topic: str, how: How) -> None:
    read_through(behind_proxy, topic, how, seed=2024)


@pytest.mark.kafka
@pytest.mark.soak
@pytest.mark.parametrize("how", SPOILERS, ids=lambda how: how.__name__)
@pytest.mark.parametrize("round_", range(20))
def test_many_spoilt_connections(behind_proxy: BehindProxy, topic: str, how: How, round_: int) -> None:
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 1_000_000))
    print(f"SOAK_SEED={seed}, round {round_}")
    read_through(behind_proxy, topic, how, seed)


def read_through(behind_proxy: BehindProxy, topic: str, how: How, seed: int) -> None:
    cluster, proxy = behind_proxy
    cluster.create_topic(topic, partitions=3)
    fill(cluster.bootstrap_servers, topic, 60_000, partitions=3)
    ends = {(topic, partition): 20_000 for partition in range(3)}
    mischief = Mischief(how, every=10, seed=seed)
    rows: dict[tuple[str, int], list[grete.Message]] = {}
    settings = {"max.partition.fetch.bytes": 100_000}
    try:
        with client(cluster.bootstrap_servers, **settings) as reader:
            proxy.spoil = mischief
            reader.assign([(topic, partition, 0) for partition in range(3)])
            deadline = Deadline(120.0)
            while not reached(reader, ends):
                assert not deadline.over, f"{ {at: len(row) for at, row in rows.items()} } after {mischief.done} times"
                try:
                    take(reader, rows, 0.25)
                except grete.CorruptBatchError as error:
                    # Spoilt twice in a row: the lane stops there, and a seek lets the lane go on.
                    reader.seek(error.topic, error.partition, error.offset)
    finally:
        proxy.spoil = bytes
    assert mischief.done >= 3
    for partition in range(3):
        row = rows[topic, partition]
        assert offsets(row) == list(range(20_000))
        assert [message.value for message in row] == [value_of(partition + 3 * i, 100) for i in range(20_000)]


def test_consumer_helper_refuses_unknown_settings() -> None:
    with pytest.raises(grete.ConfigError, match=r"fetch\.max\.bytes"):
        consumer("127.0.0.1:1", fetch_max_byte=1)
