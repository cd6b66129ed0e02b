"""The measured clients of the parts where each record is handed to a handler."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.common.environments import python_of
from benchmarks.consume.catalogue import RDKAFKA_TUNED

MILLION = 1_000_000
TOPIC, RECORDS = "T100", 5 * MILLION


@dataclass(frozen=True)
class Client:
    """One process to run, which prints a line. `got` is the type that its handler has to be given."""

    name: str
    title: str
    python: Callable[[], Path]
    module: str
    got: str
    settings: Mapping[str, str] = field(default_factory=dict)
    note: str = ""
    # The slow ones read the start of the topic only.
    limit: int = RECORDS

    def records(self, at_most: int) -> int:
        """How many records it reads."""
        return min(at_most, self.limit)

    def command(self, bootstrap: str, at_most: int) -> list[str]:
        """The whole command line."""
        words = [str(self.python()), "-m", f"benchmarks.process.clients.{self.module}"]
        settings = [f"{name}={value}" for name, value in self.settings.items()]
        return [*words, bootstrap, TOPIC, "1", str(self.records(at_most)), *settings]


def _own() -> Path:
    return Path(sys.executable)


def _grete(style: str, title: str, got: str, at_once: int | None = None, name: str | None = None) -> Client:
    settings = {"style": style}
    if at_once is not None:
        settings["max_messages"] = str(at_once)
    return Client(name or f"grete-{style.replace('_', '-')}", title, _own, "grete_app", got, settings, "1 worker")


def _confluent(payload: str, title: str, got: str, limit: int) -> Client:
    name = "confluent" if payload == "none" else f"confluent-{payload}"
    settings = {"payload": payload, **RDKAFKA_TUNED}
    return Client(name, title, _own, "confluent", got, settings, "CRC not checked (its default)", limit)


def _faststream(backend: str, payload: str, title: str, limit: int) -> Client:
    # Without a type it decodes JSON all the same: its handler gets a dict in both parts.
    settings = {"backend": backend, "payload": payload}
    note = f"async handler, no logger; first {limit:,} records"
    python = lambda: python_of("process", "faststream")  # noqa: E731
    return Client(f"faststream-{backend}", title, python, "faststream_app", "dict", settings, note, limit)


def _quix(payload: str, title: str, got: str, limit: int) -> Client:
    python = lambda: python_of("process", "quixstreams")  # noqa: E731
    note = f"loglevel WARNING; first {limit:,} records"
    return Client("quixstreams", title, python, "quix", got, {"payload": payload}, note, limit)


def _named(*clients: Client) -> dict[str, Client]:
    return {client.name: client for client in clients}


NOOP = _named(
    _grete("message", "Grete, def f(message: grete.Message)", "Message"),
    _grete("rows", "Grete, class, for message in self.messages", "Message"),
    _grete("values", "Grete, def f(messages), for value in messages.values()", "bytes", 10_000),
    _grete("columns", "Grete, def f(messages), Arrow columns", "Messages", 10_000),
    _grete("columns", "Grete, the same with max_messages=500, the default", "Messages", None, "grete-columns-defaults"),
    _confluent("none", "confluent-kafka, consume(10000) loop", "Message", 2 * MILLION),
    _quix("bytes", "quixstreams, sdf.update, bytes", "bytes", 200_000),
    _faststream("aiokafka", "none", "faststream on aiokafka, handler(msg)", 40_000),
    _faststream("confluent", "none", "faststream on confluent-kafka, handler(msg)", 30_000),
)
JSON = _named(
    _grete("payload", "Grete, def f(event: Event), msgspec", "Event"),
    _grete("payload_rows", "Grete, class, message.payload, msgspec", "Event"),
    _confluent("json", "confluent-kafka, consume(10000) loop, json.loads", "dict", MILLION),
    _confluent("msgspec", "confluent-kafka, consume(10000) loop, msgspec", "Event", MILLION),
    _quix("json", "quixstreams, sdf.update, json (its default)", "dict", 200_000),
    _faststream("aiokafka", "json", "faststream on aiokafka, handler(msg: dict)", 40_000),
    _faststream("confluent", "json", "faststream on confluent-kafka, handler(msg: dict)", 30_000),
)


@dataclass(frozen=True)
class Part:
    """Clients beside each other."""

    name: str
    title: str
    clients: Mapping[str, Client]
    # What the ratios of the table are to.
    base: str


PARTS = {
    part.name: part
    for part in (
        Part("noop", "A handler that does nothing, for each record", NOOP, "grete-message"),
        Part("json", "The same with the value decoded from JSON", JSON, "grete-payload"),
    )
}
