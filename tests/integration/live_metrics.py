"""An App that moves every metric, and what its `/metrics` says."""

from __future__ import annotations

import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grete
from tests.integration.app_process import AppRun
from tests.integration.swarm_process import SwarmRun
from tests.kafka import KafkaCluster, fill
from tests.kafka.ports import ReservedPort
from tests.unit.exposition import Exposition

METERED = "tests.integration.apps.metered:app"
PARTITIONS = 4
RECORDS = 400


class Metered:
    """A run of `apps.metered`, alone or as a swarm."""

    def __init__(self, run: AppRun, port: int, kafka: KafkaCluster, topic: str) -> None:
        self.run = run
        self._port = port
        self._kafka = kafka
        self._topic = topic

    def get(self, path: str) -> tuple[str, bytes]:
        """Content type and body of what the probes answer with 200."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self._port}{path}", timeout=10) as answer:
            return answer.headers["Content-Type"], answer.read()

    def metrics(self) -> Exposition:
        """What a scrape gets."""
        kind, body = self.get("/metrics")
        assert kind == "text/plain; version=0.0.4; charset=utf-8"
        exposed = Exposition(body)
        exposed.check(["node"] if isinstance(self.run, SwarmRun) else [])
        return exposed

    def feed(self) -> None:
        """Good records, and a bad one."""
        fill(self._kafka.bootstrap_servers, self._topic, RECORDS, partitions=PARTITIONS)
        with grete.client.Producer({"bootstrap.servers": self._kafka.bootstrap_servers}) as producer:
            producer.produce_sync(self._topic, b"bad")

    def until(self, name: str, least: float) -> Exposition:
        """Wait until the sum of the metric is that much."""
        last = ["nothing"]

        def reached() -> bool:
            try:
                now = self.metrics()
            except OSError:
                return False
            last.append(now.text)
            return sum(now.of(name).values()) >= least

        self.run.until(reached, 60.0, f"{name} {least}: {last[-1]}")
        return self.metrics()


@contextmanager
def metered(kafka: KafkaCluster, topic: str, directory: Path, nodes: int | None) -> Iterator[Metered]:
    """It runs, and has processed all that there was; `nodes`: as a swarm of so many."""
    for name, count in ((topic, PARTITIONS), (f"{topic}.dead", 1), (f"{topic}.to", 1)):
        kafka.create_topic(name, partitions=count)
    environment = {
        "METERED_SERVERS": kafka.bootstrap_servers,
        "METERED_GROUP": topic,
        "METERED_TOPIC": topic,
        "METERED_DEAD": f"{topic}.dead",
        "METERED_TO": f"{topic}.to",
    }
    port = ReservedPort()
    options = ["--probes", f"127.0.0.1:{port.number}"]
    if nodes is None:
        started = AppRun(METERED, directory, environment, options)
    else:
        started = SwarmRun(METERED, directory, environment, *options, nodes=nodes)
    with started as run:
        one = Metered(run, port.number, kafka, topic)
        one.until("grete_group_ready", nodes or 1)
        one.feed()
        yield one
        assert run.stop() == 0, run.output
    port.release()
