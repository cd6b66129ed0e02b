"""All ways to declare a consumer. The type checker has to accept each line; what it has to refuse says so."""

import functools
from collections.abc import Awaitable
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict, assert_type

import msgspec
import pydantic

import grete

app = grete.App(
    "billing",
    kafka={"bootstrap.servers": "localhost:9092"},
    workers=5,
    group="billing",
    max_messages=100,
    max_bytes="1MiB",
    max_wait="20ms",
    stall_after="none",
    handler_timeout=60,
    shutdown_timeout="30s",
    queued_bytes="64MiB",
    log_level="info",
    leak_report=False,
    loop="asyncio",
    swarm={"nodes": 4, "max_rss": "1GiB", "restart_backoff": "1s..30s", "probes": ":8080", "cpus": [0, 1]},
    nodes={0: ["batch"], 1: ["one", "struct"]},
)


class Struct(msgspec.Struct):
    id: int


class Model(pydantic.BaseModel):
    id: int


@dataclass
class Data:
    id: int


class Typed(TypedDict):
    id: int


@app.consumer(
    "all-settings",
    group="others",
    max_messages=10,
    max_bytes=1 << 20,
    max_wait=0.5,
    stall_after="10s",
    handler_timeout="none",
    concurrency="key",
    max_in_flight=100,
    max_concurrency=10,
    priority=3,
    payload=Struct,
    retry=grete.Retry(attempts=3, backoff=("100ms", 5), jitter=0.5, on=(OSError, ValueError), never=KeyError),
    dead_letter="dead",
    offsets="manual",
    max_unmarked=1000,
    offset_map=True,
    rate_limit="100/s",
    delay="5m",
    max_age="1h",
    tick="10s",
    nodes=[0, 2],
)
class Everything(grete.Consumer):
    def __init__(self) -> None:
        self.count = 0

    def initialize(self) -> None:
        """Nothing."""

    def consume(self) -> None:
        """Nothing."""

    def tick(self) -> None:
        """Nothing."""


assert_type(Everything().count, int)


@app.consumer("async-class")
class Later(grete.Consumer):
    async def initialize(self) -> None:
        """Nothing."""

    async def consume(self) -> None:
        """Nothing."""

    def revoked(self) -> None:
        """Nothing."""

    async def shutdown(self) -> None:
        """Nothing."""


@app.consumer("bare")
def bare(messages):  # type: ignore[no-untyped-def]
    """Nothing."""


@app.consumer("batch")
def batch(messages: grete.Messages) -> None:
    """Nothing."""


@app.consumer("direct", group="direct", partitions={0: [0, 1], 1: range(2, 4)})
def direct(messages: grete.Messages) -> None:
    """Nothing."""


@app.preload
def load() -> None:
    """Nothing."""


@app.consumer("one")
def one(message: grete.Message) -> None:
    assert_type(message.payload, Any)


@app.consumer("one-typed")
def one_typed(message: grete.Message[Struct]) -> None:
    assert_type(message.payload, Struct)
    assert_type(message.value, bytes | None)


@app.consumer("batch-typed")
async def batch_typed(messages: grete.Messages[Data]) -> None:
    assert_type(messages.payloads(), list[Data])
    assert_type(messages[0], grete.Message[Data])
    assert_type(messages[1:], grete.Messages[Data])
    assert_type(messages.empty, bool)
    for message in messages:
        assert_type(message.payload, Data)


@app.consumer("struct")
def struct(order: Struct) -> None:
    """Nothing."""


@app.consumer("model", payload=Model)
def model(order: Model | None) -> None:
    """Nothing."""


@app.consumer("data")
async def data(order: Data) -> None:
    """Nothing."""


@app.consumer("typed")
async def typed(order: Typed) -> None:
    """Nothing."""


@app.consumer("plain", payload="json", rate_limit=5)
async def plain(order: dict[str, Any]) -> None:
    """Nothing."""


@app.consumer("own", payload=lambda value: value.decode())
def own(text: str) -> None:
    """Nothing."""


@app.consumer("later-batch", "and-another")
async def later_batch(messages: grete.Messages) -> None:
    """Nothing."""


@app.consumer("later-one")
async def later_one(message: grete.Message) -> None:
    """Nothing."""


class Service:
    def take(self, message: grete.Message) -> None:
        """Nothing."""

    def __call__(self, messages: grete.Messages) -> Awaitable[None] | None:
        return None


def with_more(store: dict[str, int], message: grete.Message) -> None:
    """Nothing."""


app.consumer("method")(Service().take)
app.consumer("callable")(Service())
app.consumer("partial")(functools.partial(with_more, {}))
app.consumer("registry", payload=grete.payloads.Avro("http://localhost:8081", type=Struct))(struct)


structs = app.topic("structs", key=str, value=Struct)
models = app.topic("models", value=Model)


def get_struct(key: grete.Key[str]) -> Struct:
    return Struct(len(key))


@app.consumer(structs, publish=models, dead_letter=app.topic("structs.dlq"))
def named(
    order: Struct,
    message: grete.Message[Struct],
    key: grete.Key[str | None],
    headers: grete.Headers,
    offset: grete.Offset,
    attempt: grete.Attempt,
    producer: grete.Producer,
    context: grete.Context,
    same: Annotated[Struct, grete.Depends(get_struct)],
) -> Model:
    assert_type(message.payload, Struct)
    assert_type(key, str | None)
    assert_type(headers, tuple[tuple[str, bytes | None], ...])
    assert_type(offset, int)
    assert_type(attempt, int)
    assert_type(same, Struct)
    producer.produce(structs, same, key=key)
    return Model(id=order.id)


@app.consumer("batches", publish=models)
def batches(orders: grete.Batch[Struct]) -> list[Model | None]:
    assert_type(orders, list[Struct])
    return [None for _ in orders]


def typed_producers() -> None:
    """Never called: what the type checker accepts and refuses."""
    assert_type(structs, grete.Topic[str, Struct])
    app.producer.produce_many(structs, [Struct(1), Struct(2)], keys=["a", None])
    app.producer.produce_many(structs, [grete.Record(Struct(2), key="k")])
    app.producer.produce(structs, Model(id=1))  # type: ignore[misc]
    app.producer.produce(structs, Struct(1), key=3)  # type: ignore[misc]
    app.producer.produce("raw", Struct(1))  # type: ignore[call-overload]


def refused() -> None:
    """Never called: what the type checker refuses."""
    app.consumer("x", concurrency="keys")  # type: ignore[arg-type]
    app.consumer("x", offsets="at-most-once")  # type: ignore[arg-type]
    app.consumer("x", retry=3)  # type: ignore[arg-type]
    app.consumer("x", max_mesages=3)  # type: ignore[call-arg]
    app.consumer("x")(3)  # type: ignore[type-var]
    grete.App("x", loop="trio")  # type: ignore[arg-type]
    app.consumer("x", nodes=3)  # type: ignore[arg-type]
    app.preload(with_more)  # type: ignore[type-var]
    grete.App("x", swarm={"node": 3})  # type: ignore[typeddict-unknown-key]
    grete.App("x", wrokers=3)  # type: ignore[call-arg]
    grete.Retry(attempts="3")  # type: ignore[arg-type]
    grete.Retry(max_attempts=3)  # type: ignore[call-arg]
    grete.client.Producer(bootstrap_servers="x")  # type: ignore[call-arg]
    grete.Messages.empty().empty()  # type: ignore[operator]
