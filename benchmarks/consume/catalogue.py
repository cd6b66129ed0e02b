"""The measured clients: how each is started, with which settings, and on which topics."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.broker import Broker, Tls
from benchmarks.common.build import c_program, floor_program, go_program, java_command

from .topics import TOPICS, Filled

MILLION = 1_000_000
ALL = frozenset(TOPICS)
PLAIN = frozenset(name for name, topic in TOPICS.items() if not topic.compressed)
MAIN = frozenset({"T23", "T100"})


@dataclass(frozen=True)
class Client:
    """One process to run; it prints a line per pass, and `rows` names those that are shown."""

    name: str
    program: Callable[[], list[str]]
    rows: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    limit: int | None = None
    topics: frozenset[str] = ALL
    # Words between the common ones and the NAME=VALUE settings.
    extra: tuple[str, ...] = ()
    # An app is imported by `grete run`: what to read comes through the environment.
    by_environment: bool = False
    # How it connects to a broker over TLS; None: it is not measured there.
    over_tls: Callable[[Tls], list[str]] | None = None

    def records(self, filled: Filled) -> int:
        """How many records it reads: slow ones read the start of the topic only."""
        return min(filled.records, self.limit or filled.records)

    def command(self, broker: Broker, filled: Filled) -> list[str]:
        """The whole command line."""
        if self.by_environment:
            return self.program()
        tls = self.over_tls(broker.tls) if broker.tls and self.over_tls else []
        bootstrap = broker.tls.bootstrap if broker.tls else broker.bootstrap
        common = [bootstrap, filled.topic.name, str(filled.topic.partitions), str(self.records(filled))]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return [*self.program(), *common, *self.extra, *settings, *tls]

    def environment(self, bootstrap: str, filled: Filled) -> dict[str, str]:
        """Variables that are added to the environment."""
        if not self.by_environment:
            return {}
        records = str(self.records(filled))
        return {"BENCH_BOOTSTRAP": bootstrap, "BENCH_TOPIC": filled.topic.name, "BENCH_RECORDS": records}


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.consume.clients.{module}"]


def _floor(mode: str, text: str, topics: frozenset[str] = ALL) -> Client:
    return Client(
        f"floor-{mode}",
        lambda: [str(floor_program()), "consume"],
        {mode: f"floor: raw socket, {text}"},
        note="max.partition.fetch.bytes 1 MiB",
        topics=topics,
        extra=(mode,),
        over_tls=lambda tls: [str(tls.authority)],
    )


RDKAFKA_TUNED = {"queued.min.messages": "1000000", "fetch.queue.backoff.ms": "10"}
GRETE_TUNED = {"max.partition.fetch.bytes": "4194304", "max_messages": "50000"}

_clients = (
    _floor("read", "batch headers only"),
    _floor("crc", "CRC"),
    _floor("crcparse", "CRC + parse", PLAIN),
    Client(
        "grete-columns",
        _python("grete_columns"),
        {"only": "Grete, columns"},
        GRETE_TUNED,
        over_tls=Tls.librdkafka_settings,
    ),
    Client("grete-columns-defaults", _python("grete_columns"), {"only": "Grete, columns, all defaults"}, topics=MAIN),
    Client(
        "grete-rows",
        _python("grete_rows"),
        {"only": "Grete, rows with .value"},
        GRETE_TUNED,
        over_tls=Tls.librdkafka_settings,
    ),
    Client(
        "grete-app",
        lambda: [str(Path(sys.executable).with_name("grete")), "run", "benchmarks.consume.clients.grete_app:app"],
        {"only": "Grete, App with a class"},
        note="group, 1 worker, default commits, rows with .value",
        by_environment=True,
    ),
    Client(
        "librdkafka",
        lambda: [str(c_program("consume/clients/librdkafka.c"))],
        {"only": "librdkafka, C API"},
        RDKAFKA_TUNED,
        note="rd_kafka_consume_batch_queue(10000); CRC not checked (its default)",
        over_tls=Tls.librdkafka_settings,
    ),
    Client(
        "franz",
        lambda: [str(go_program()), "consume"],
        {"last": "franz-go, 2nd pass"},
        note="PollFetches, EachRecord",
        extra=("2",),
    ),
    Client(
        "java",
        lambda: list(java_command("Consume")),
        {"cold": "Java, cold (1st pass)", "warm": "Java, warm (3rd pass)"},
        note="max.poll.records=10000, -Xms512m -Xmx1g",
        extra=("3",),
        over_tls=Tls.java_settings,
    ),
    Client(
        "confluent",
        _python("confluent"),
        {"only": "confluent-kafka, consume(10000)"},
        RDKAFKA_TUNED,
        note="CRC not checked (its default)",
        over_tls=Tls.librdkafka_settings,
    ),
    Client(
        "confluent-defaults",
        _python("confluent"),
        {"only": "confluent-kafka, consume(10000), all defaults"},
        note="first 2M records",
        limit=2 * MILLION,
        topics=MAIN,
    ),
    Client("aiokafka", _python("aio"), {"only": "aiokafka, getmany"}, note="first 1M records", limit=MILLION),
)
CLIENTS = {client.name: client for client in _clients}
