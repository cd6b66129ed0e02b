"""The measured clients: how each is started, with which settings, and in which part."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from benchmarks.common.broker import Broker, Tls
from benchmarks.common.build import c_program, floor_program, go_program, java_command

VALUE_BYTES = 100
SYNC_RECORDS = 2_000
SLEPT_RECORDS = 1_000
RECORDS = 2_000_000
# aiokafka takes ten times as long as the slowest of the others.
SLOW_RECORDS = 300_000
# Connecting, metadata and the producer's id are not measured; Java's and Go's runtimes need more to warm up.
WARM_UP, RUNTIME_WARM_UP = 200, 20_000


@dataclass(frozen=True)
class Client:
    """One process to run; it prints a line per pass, and `rows` names those that are shown."""

    name: str
    program: Callable[[], list[str]]
    rows: Mapping[str, str]
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    limit: int | None = None
    warm_up: int = WARM_UP
    # Words between the common ones and the NAME=VALUE settings.
    extra: tuple[str, ...] = ()
    # A client that takes minutes is run in the first rounds only.
    rounds: int | None = None
    # How it connects to a broker over TLS; None: it is not measured there.
    over_tls: Callable[[Tls], list[str]] | None = None

    def command(self, broker: Broker, topic: str, partitions: int, records: int) -> list[str]:
        """The whole command line."""
        counted = min(records, self.limit or records)
        tls = self.over_tls(broker.tls) if broker.tls and self.over_tls else []
        bootstrap = broker.tls.bootstrap if broker.tls else broker.bootstrap
        common = [bootstrap, topic, *map(str, (partitions, self.warm_up, counted, VALUE_BYTES))]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return [*self.program(), *common, *self.extra, *settings, *tls]


def _python(module: str) -> Callable[[], list[str]]:
    return lambda: [sys.executable, "-m", f"benchmarks.produce.clients.{module}"]


SAFE = {"acks": "all", "enable.idempotence": "true"}
AT_ONCE = {**SAFE, "linger.ms": "0"}


def _grete_sync(name: str, mode: str, title: str, limit: int | None = None, rounds: int | None = None) -> Client:
    settings = {**AT_ONCE, "mode": mode}
    warm_up = WARM_UP if mode != "sleep" else 2
    return Client(
        name,
        _python("grete_sync"),
        {"only": title},
        settings,
        limit=limit,
        warm_up=warm_up,
        rounds=rounds,
        over_tls=Tls.librdkafka_settings if mode == "sync" else None,
    )


_sync = (
    Client(
        "floor",
        lambda: [str(floor_program()), "produce"],
        {"only": "floor: raw blocking socket"},
        note="idempotent batches of one record, acks=all",
        over_tls=lambda tls: [str(tls.authority)],
    ),
    _grete_sync("grete", "sync", "Grete, produce_sync"),
    _grete_sync("grete-wait", "wait", "Grete, produce().wait()"),
    Client("grete-await", _python("grete_await"), {"only": "Grete, await send"}, AT_ONCE),
    _grete_sync("grete-sleep", "sleep", "Grete, sleeping 100 ms until done", SLEPT_RECORDS, rounds=1),
    Client(
        "confluent-flush",
        _python("confluent_sync"),
        {"only": "confluent-kafka, produce + flush()"},
        {**AT_ONCE, "mode": "flush"},
        over_tls=Tls.librdkafka_settings,
    ),
    Client(
        "confluent-poll",
        _python("confluent_sync"),
        {"only": "confluent-kafka, produce + poll until reported"},
        {**AT_ONCE, "mode": "poll"},
        over_tls=Tls.librdkafka_settings,
    ),
    Client(
        "franz",
        lambda: [str(go_program()), "produce-sync"],
        {"only": "franz-go, ProduceSync"},
        note="linger 0; a goroutine is no thread, so the caller's switches are not counted",
        warm_up=RUNTIME_WARM_UP,
    ),
    Client(
        "java",
        lambda: list(java_command("ProduceSync")),
        {"only": "Java, send().get(), warm"},
        {"linger.ms": "0"},
        note=f"after {RUNTIME_WARM_UP:,} sends; -Xms512m -Xmx1g",
        warm_up=RUNTIME_WARM_UP,
        over_tls=Tls.java_settings,
    ),
    Client("aiokafka", _python("aio_sync"), {"only": "aiokafka, send_and_wait"}, note="linger 0, idempotent"),
)
SYNC = {client.name: client for client in _sync}

BATCHED = {"linger.ms": "5", "batch.size": "500000"}
RDKAFKA = {
    **SAFE,
    **BATCHED,
    # Without these two a batch ends at 10,000 records, and produce() blocks at 100,000.
    "batch.num.messages": "1000000",
    "queue.buffering.max.messages": "1000000",
}
GRETE = {**SAFE, **BATCHED}


def _grete(mode: str, title: str) -> Client:
    name = "grete-reported" if mode == "on_delivery" else f"grete-{mode}"
    return Client(name, _python("grete_async"), {"only": title}, {**GRETE, "mode": mode})


_throughput = (
    _grete("one", "Grete, produce one by one"),
    _grete("on_delivery", "Grete, produce with on_delivery"),
    _grete("many", "Grete, produce_many, lists of 10,000"),
    _grete("arrow", "Grete, produce_many, Arrow"),
    Client(
        "grete-one-defaults",
        _python("grete_async"),
        {"only": "Grete, produce one by one, all defaults"},
        {"mode": "one"},
    ),
    Client(
        "confluent", _python("confluent_async"), {"only": "confluent-kafka, produce"}, {**RDKAFKA, "mode": "produce"}
    ),
    Client(
        "confluent-reported",
        _python("confluent_async"),
        {"only": "confluent-kafka, produce with on_delivery"},
        {**RDKAFKA, "mode": "on_delivery"},
    ),
    Client(
        "librdkafka",
        lambda: [str(c_program("produce/clients/produce_many.c"))],
        {"only": "librdkafka, C API"},
        RDKAFKA,
        note="RD_KAFKA_MSG_F_COPY, dr_msg_cb",
    ),
    Client(
        "franz",
        lambda: [str(go_program()), "produce-many"],
        {"last": "franz-go, 2nd pass"},
        note="linger 5 ms, batches of 500,000 bytes, MaxBufferedRecords 1M; the goroutines decide what waits",
        extra=("2",),
    ),
    Client(
        "java",
        lambda: list(java_command("ProduceMany")),
        {"cold": "Java, cold (1st pass)", "warm": "Java, warm (3rd pass)"},
        {**BATCHED, "buffer.memory": "67108864"},
        note="send with a callback; -Xms512m -Xmx1g",
        extra=("3",),
    ),
    Client(
        "aiokafka",
        _python("aio_async"),
        {"only": "aiokafka, send"},
        {"linger_ms": "5", "max_batch_size": "500000"},
        note=f"acks=all, idempotent; {SLOW_RECORDS:,} records",
        limit=SLOW_RECORDS,
    ),
)
THROUGHPUT = {client.name: client for client in _throughput}


@dataclass(frozen=True)
class Shape:
    """Destination of the throughput part's records."""

    name: str
    partitions: int
    text: str


SHAPES = {
    shape.name: shape
    for shape in (
        Shape("one", 1, "into one named partition"),
        Shape("eight", 8, "without key and partition into eight"),
    )
}
