"""Apps in this process, for as long as a `with`: handlers are what the test says, and notes are plain lists."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import grete
from tests.integration.topic_reader import consumer, read_to
from tests.kafka import KafkaCluster, eventually

FAST = grete.Retry(attempts=3, backoff="10ms..50ms")


def make(kafka: KafkaCluster, group: str, tuning: Mapping[str, object] | None = None, **settings: Any) -> grete.App:
    """An App that commits often. `tuning`: Kafka settings."""
    all_settings: Any = {"workers": 2, "shutdown_timeout": "20s"} | settings
    ours = {"bootstrap.servers": kafka.bootstrap_servers, "auto.commit.interval.ms": 200}
    return grete.App(group, kafka=ours | dict(tuning or {}), **all_settings)


@contextmanager
def running(app: grete.App) -> Iterator[grete.App]:
    """Started, and stopped cleanly at the end; what ends it before fails the test."""
    app.start()
    try:
        yield app
        assert app.error is None
    finally:
        app.stop()


def until_done(kafka: KafkaCluster, app: grete.App, *topics: str, seconds: float = 60.0) -> None:
    """Wait until the App's group has nothing left to read: all is processed, or in the dead letter topic."""

    def check() -> bool:
        if app.error is not None:
            raise app.error
        return kafka.admin.lag(app.name, topics) == 0

    eventually(check, seconds, lambda: f"all of {topics} committed; {app.statistics()}")


def dead_letters(kafka: KafkaCluster, topic: str) -> list[grete.Message]:
    """All records of a topic of one partition."""
    end = kafka.admin.end_offsets(topic)[0]
    if end == 0:
        return []
    with consumer(kafka.bootstrap_servers) as reader:
        reader.assign([(topic, 0, "earliest")])
        return read_to(reader, {(topic, 0): end})[topic, 0]


def header(message: grete.Message, name: str) -> str:
    (value,) = [value for key, value in message.headers if key == name]
    assert value is not None
    return value.decode()
