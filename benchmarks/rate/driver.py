"""For each rate and each client: a fresh topic, a producer on the broker's core, the client on its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.common.broker import Broker
from benchmarks.common.build import c_program, floor_program, go_program, java_command
from benchmarks.common.pinning import Cores, pinned
from benchmarks.common.run import ClientFailedError, run_client
from tests.kafka.processes import end, spawn

FETCH = "fetch.max.wait.ms=500, fetch.min.bytes=1, max.partition.fetch.bytes=1 MiB"


@dataclass(frozen=True)
class Client:
    """One consumer; `words` are NAME=VALUE after the common arguments. `producer`: the same client's, which waits for
    each record; None: librdkafka's, which lingers. `warm_up`: seconds beyond those of all clients."""

    name: str
    title: str
    program: Callable[[], list[str]]
    words: tuple[str, ...] = ()
    producer: Callable[[], list[str]] | None = None
    warm_up: float = 0.0


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.rate.clients.{module}"]


RDKAFKA = ("fetch.wait.max.ms=500", "fetch.min.bytes=1", "max.partition.fetch.bytes=1048576")
GRETE = ("fetch.max.wait.ms=500", "fetch.min.bytes=1", "max.partition.fetch.bytes=1048576")
_clients = (
    Client("floor", "floor: raw socket, CRC + parse", lambda: [str(floor_program()), "rate"]),
    Client("handler", "the Python handler alone, no client", _python("handler_alone")),
    Client("grete", "Grete, poll, rows with .value", _python("grete_poll"), GRETE),
    Client("grete-columns", "Grete, poll, .values()", _python("grete_poll"), (*GRETE, "mode=columns")),
    Client("grete-app", "Grete, handler of an App", _python("grete_app"), GRETE),
    Client("grete-latency", "Grete, poll, latency=100ms", _python("grete_poll"), (GRETE[2], "latency=100ms")),
    Client("librdkafka", "librdkafka, C API", lambda: [str(c_program("rate/clients/rate_librdkafka.c"))], RDKAFKA),
    Client("confluent-poll", "confluent-kafka, poll()", _python("confluent"), ("mode=poll", *RDKAFKA)),
    Client(
        "confluent-consume", "confluent-kafka, consume(1000, 0.1)", _python("confluent"), ("mode=consume", *RDKAFKA)
    ),
    Client("java", "Java, cold", lambda: list(java_command("Rate"))),
    # The just-in-time compiler has seen every path by then.
    Client("java-warm", "Java, after another minute", lambda: list(java_command("Rate")), warm_up=60.0),
    Client("franz", "franz-go, PollFetches", lambda: [str(go_program()), "rate"]),
    Client("aiokafka", "aiokafka, getmany", _python("aio")),
)
CLIENTS = {client.name: client for client in _clients}
# Each with its own producer, which waits for each record.
_pairs = (
    Client("grete", "Grete, produce_sync; poll", _python("grete_poll"), GRETE, _python("grete_producer")),
    Client(
        "grete-app", "Grete, produce_sync; handler of an App", _python("grete_app"), GRETE, _python("grete_producer")
    ),
    Client(
        "confluent",
        "confluent-kafka, produce and flush; poll()",
        _python("confluent"),
        ("mode=poll", *RDKAFKA),
        _python("confluent_producer"),
    ),
    Client(
        "java",
        "Java, send().get(); poll()",
        lambda: list(java_command("Rate")),
        producer=lambda: list(java_command("RateProducer")),
    ),
    Client(
        "franz",
        "franz-go, ProduceSync; PollFetches",
        lambda: [str(go_program()), "rate"],
        producer=lambda: [str(go_program()), "rate-produce"],
    ),
)
PAIRS = {client.name: client for client in _pairs}


@dataclass(frozen=True)
class Plan:
    """Lengths in seconds."""

    warm_up: float
    windows: int
    seconds: float

    @property
    def total(self) -> float:
        return self.warm_up + self.windows * self.seconds


@dataclass(frozen=True)
class Result:
    """One client at one rate: medians over its windows, except `max_us` and `wrong`, which are over all."""

    per_second: int
    client: str
    title: str
    version: str
    cpu_percent: float
    cpu_windows: tuple[float, ...]
    cpu_us_per_record: float
    p50_us: float
    p99_us: float
    p999_us: float
    max_us: float
    records: int
    wrong: int
    peak_rss: int


def measure(broker: Broker, cores: Cores, client: Client, per_second: int, plan: Plan) -> Result:
    """One run. The producer goes on until the client has ended."""
    topic = f"rate-{per_second}-{client.name}{'-sync' if client.producer else ''}"
    broker.admin.create_topic(topic, 1, 1, {"retention.ms": -1})
    program = client.producer() if client.producer else [c_program("rate/producer.c")]
    length = plan.total + client.warm_up
    produce = [*program, broker.bootstrap, topic, str(per_second), str(length + 60)]
    consume = [broker.bootstrap, topic, per_second, plan.warm_up + client.warm_up, plan.windows, plan.seconds]
    words = [*client.program(), *map(str, consume), *client.words]
    with pinned(cores.broker):
        producer = spawn([str(word) for word in produce], stdout=subprocess.DEVNULL)
    try:
        (line,) = run_client(words, cores.client, length + 60)
        if producer.poll() is not None:
            raise ClientFailedError("the producer ended before the consumer")
    finally:
        end(producer)
    return _result(client, per_second, line)


def _result(client: Client, per_second: int, line: dict[str, Any]) -> Result:
    windows: Sequence[dict[str, Any]] = line["windows"]
    shares = tuple(100 * window["cpu_seconds"] / window["seconds"] for window in windows)
    return Result(
        per_second,
        client.name,
        client.title,
        line["version"],
        median(shares),
        shares,
        median(1e6 * window["cpu_seconds"] / max(window["records"], 1) for window in windows),
        median(window["p50_us"] for window in windows),
        median(window["p99_us"] for window in windows),
        median(window["p999_us"] for window in windows),
        max(window["max_us"] for window in windows),
        sum(window["records"] for window in windows),
        sum(window["wrong"] for window in windows),
        line["peak_rss"],
    )
