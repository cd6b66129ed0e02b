"""Runs handlers on records, without a broker."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, TypeAlias, Unpack

from grete._processing.engine.hook_runner import run_sync
from grete._processing.engine.loop_thread import new_loop
from grete._routing.setting_types import RouteSettings
from grete.app import App
from grete.consumer import Consumer
from grete.errors import GreteError
from grete.testing._driver import ENDS, Driver, End
from grete.testing._hooks import run_with_hooks
from grete.testing._offline import FailDelivery
from grete.testing._records import Encode, Headers, Key, Record, place_records
from grete.testing._result import Run
from grete.testing._target import find_target
from grete.topic import Topic, name_of

Handler: TypeAlias = App | type[Consumer] | Callable[..., object]

# Virtual seconds after which a run ends, whatever is left: one day.
_TIME_LIMIT = 86_400.0


def consume(
    handler: Handler,
    topic: str | Topic[Any, Any],
    records: Iterable[Any],
    *,
    key: Key = None,
    headers: Headers = (),
    timestamp: int | datetime | None = None,
    partition: int | None = None,
    offset: int = 0,
    encode: Encode | None = None,
    topics: Mapping[str, int] | None = None,
    fail_delivery: FailDelivery = (),
    end: End = "shutdown",
    idle: float = 0.0,
    time_limit: float = _TIME_LIMIT,
    **settings: Unpack[RouteSettings],
) -> Run:
    """Runs a handler on records of one partition, without a broker, and returns what has become of them.

    ```
    run = testing.consume(app, "orders", [Order(1), b"not json", Order(3)], key="k")
    assert run.marked == [0, 2]
    assert run.dead[0].error == "DecodeError"
    ```

    Dispatcher, retries, dead letters, decoders and hooks are those of a running App. They run in the calling thread, on
    a virtual clock that stands still while a handler runs: waits cost no time. Waits have no jitter.

    Args:
        handler: an App, whose route of `topic` runs; or a consumer class or a function, which needs no App.
        topic: topic of the records: a name or a `grete.Topic`. A topic that is declared encodes keys and values.
        records: values, `Record` objects, or messages. Values that are no bytes are encoded: text as UTF-8, Protobuf
            messages in their own form, other types as JSON.
        key, headers, timestamp: for records without their own.
        partition: partition of the records; None: that of the records, or 0.
        offset: offset of the first record, unless it has one.
        encode: function that encodes values which are no bytes, for formats like Avro.
        topics: number of partitions of topics to which handlers write. Other topics have one; all topics exist.
        fail_delivery: topics to which no record can be written, or a dict with the number of records that fail first.
            GreteError if nothing was produced to such a topic: its name may be misspelt.
        end: "shutdown" stops the App after the last record. "revoked" and "lost" revoke the partition instead.
        idle: virtual seconds that pass between the last record and the end, for `tick`.
        time_limit: virtual seconds after which the run ends, whatever is left.
        settings: settings of the route, with a class or a function, as in `App.consumer`. With an App only `group`, if
            several groups of the App read the topic.

    Without dead letter topic, the run ends when a record has used up its attempts and nothing else is left.

    The hooks of the App (`on_startup`, `on_shutdown`, `lifespan=`) run before and after each call.

    Raises ConfigError for a topic that the App does not read and for wrong settings, TypeError for other arguments, and
    the error of a broken listener or loop. Errors of handlers are in `Run.failures`. On a running event loop, async
    handlers need `consume_async`.
    """
    driver, app = _make_driver(
        handler, topic, records, Record(None, key, headers, timestamp), partition, offset, encode, topics,
        fail_delivery, end, idle, time_limit, settings, on_host_loop=False,
    )  # fmt: skip
    hooks = app._lifecycle  # noqa: SLF001
    if not driver.is_async and not hooks.is_async:
        return run_sync(run_with_hooks(hooks, app, driver.run))
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise GreteError(
            "consume runs async handlers and hooks on a loop of its own, and this thread runs one already: "
            "await testing.consume_async(...) instead"
        )
    loop = new_loop(driver.loop_kind)
    try:
        run = loop.run_until_complete(run_with_hooks(hooks, app, driver.run))
        loop.run_until_complete(loop.shutdown_asyncgens())
        return run
    finally:
        loop.close()


async def consume_async(
    handler: Handler,
    topic: str | Topic[Any, Any],
    records: Iterable[Any],
    *,
    key: Key = None,
    headers: Headers = (),
    timestamp: int | datetime | None = None,
    partition: int | None = None,
    offset: int = 0,
    encode: Encode | None = None,
    topics: Mapping[str, int] | None = None,
    fail_delivery: FailDelivery = (),
    end: End = "shutdown",
    idle: float = 0.0,
    time_limit: float = _TIME_LIMIT,
    **settings: Unpack[RouteSettings],
) -> Run:
    """Same as `consume`, on the running event loop: async handlers may use what was opened there."""
    driver, app = _make_driver(
        handler, topic, records, Record(None, key, headers, timestamp), partition, offset, encode, topics,
        fail_delivery, end, idle, time_limit, settings, on_host_loop=True,
    )  # fmt: skip
    return await run_with_hooks(app._lifecycle, app, driver.run)  # noqa: SLF001


def _make_driver(
    handler: Handler,
    topic: str | Topic[Any, Any],
    records: Iterable[Any],
    defaults: Record,
    partition: int | None,
    offset: int,
    encode: Encode | None,
    topics: Mapping[str, int] | None,
    fail_delivery: FailDelivery,
    end: End,
    idle: float,
    time_limit: float,
    settings: RouteSettings,
    *,
    on_host_loop: bool,
) -> tuple[Driver, App]:
    if end not in ENDS:
        raise ValueError(f"end is {', '.join(map(repr, ENDS))}, not {end!r}")
    target = find_target(handler, topic, settings)
    name: str = name_of(topic)
    declared = topic if isinstance(topic, Topic) else target.app.topics.get(name)
    encode_key: Encode | None = None
    if declared is not None:
        encode_key = declared.encode_key
        if encode is None and declared.value is not None:
            encode = declared.encode_value
    placed = place_records(records, defaults, name, partition, offset)
    target.app.preloads.run(target.app.monitor)
    driver = Driver(
        target,
        placed,
        topic=name,
        partition=(placed[0].partition if placed else partition) or 0,
        offset=(placed[0].offset if placed else offset) or 0,
        encode=encode,
        encode_key=encode_key,
        topics=topics or {},
        fail_delivery=fail_delivery,
        end=end,
        idle=idle,
        time_limit=time_limit,
        on_host_loop=on_host_loop,
    )
    return driver, target.app
