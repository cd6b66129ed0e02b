"""Brokers die, hang and restart while followers are read by rack: nothing is lost, and no partition waits for long.

RACK_SECONDS: time of the faults; RACK_SEED: seed of their plan.
"""

from __future__ import annotations

import os
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import confluent_kafka
import pytest

import grete
from tests.integration.app_in_process import make, running
from tests.integration.broker_moves import BLOWS, BrokerMoves
from tests.integration.stall_detector import Pulse
from tests.integration.test_read_replicas import RACKS, SELECTOR
from tests.kafka import Deadline, KafkaCluster, eventually, new_cluster
from tests.kafka.admin import QUIET

SECONDS = float(os.environ.get("RACK_SECONDS", "600"))
pytestmark = [pytest.mark.kafka, pytest.mark.soak, pytest.mark.timeout(SECONDS + 600)]
PARTITIONS = 12
PER_SECOND = 500
SESSION = 6.0
STALL_AFTER = 1.0
# The longest time that a partition may stand still.
LONGEST = SESSION + 10.0
# A leader that does not answer has a name after 5.5 s; until then it may have nothing to send.
NAMED_AFTER = 7.0


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    properties = {"replica.selector.class": SELECTOR, "broker.rack": ",".join(RACKS.values())}
    with new_cluster(nodes=3, properties=properties) as cluster:
        yield cluster


class Progress:
    """What was acknowledged to the producer, what handlers have processed, and how long partitions stood still."""

    def __init__(self, topic: str, apps: list[grete.App]) -> None:
        self.processed: dict[int, Counter[int]] = defaultdict(Counter)
        self.acknowledged: dict[int, int] = defaultdict(lambda: -1)
        # (partition, seconds, reasons that were reported meanwhile)
        self.stalls: list[tuple[int, float, set[str]]] = []
        self._topic = topic
        self._apps = apps
        self._ends: dict[int, int] = defaultdict(lambda: -1)
        self._last_ends: dict[int, int] = {}
        self._since: dict[int, float] = {}
        self._names: dict[int, set[str]] = defaultdict(set)
        for app in apps:
            app.monitor.subscribe("partition.stalled", self._on_stalled)

    def _on_stalled(self, event: Any) -> None:
        self._names[event.payload["partition"]].add(event.payload["waits_for"])

    def handle(self, messages: grete.Messages) -> None:
        for message in messages:
            self.processed[message.partition][message.offset] += 1
            self._ends[message.partition] = max(self._ends[message.partition], message.offset)

    def on_delivery(self, error: confluent_kafka.KafkaError | None, message: confluent_kafka.Message) -> None:
        assert error is None, error
        partition, offset = message.partition(), message.offset()
        assert partition is not None
        if offset is None:
            return  # a batch that was sent again, of which the broker does not know where it was
        self.acknowledged[partition] = max(self.acknowledged[partition], offset)

    def sample(self, pulse: Pulse) -> None:
        """Notes which partitions have acknowledged records that wait, and why the Apps say that they do."""
        now = time.monotonic()
        lanes: dict[int, set[str]] = defaultdict(set)
        for app in self._apps:
            statistics = app.statistics()
            for lane in statistics["lanes"]:
                if lane["waits_for"] is not None:
                    lanes[lane["partition"]].add(lane["waits_for"])
        for partition in range(PARTITIONS):
            moved = self._ends[partition] != self._last_ends.get(partition)
            waits = self.acknowledged[partition] > self._ends[partition]
            if (moved or not waits) and partition in self._since:
                length = now - self._since.pop(partition)
                if length > STALL_AFTER and not pulse.missed(int((now - length) * 1e9), int(now * 1e9)):
                    self.stalls.append((partition, length, self._names.pop(partition, set())))
                self._names.pop(partition, None)
            if waits:
                self._since.setdefault(partition, now)
                self._names[partition] |= lanes[partition]
        self._last_ends = dict(self._ends)


def write(kafka: KafkaCluster, topic: str, progress: Progress, stop: threading.Event) -> None:
    """Writes to all partitions in turn until `stop`; returns when each record is acknowledged."""
    producer = confluent_kafka.Producer(
        {"bootstrap.servers": kafka.bootstrap_servers, "enable.idempotence": True, "linger.ms": 5, **QUIET}
    )
    number = 0
    while not stop.wait(0.02):
        for _ in range(PER_SECOND // 50):
            partition = number % PARTITIONS
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=progress.on_delivery)
            number += 1
        producer.poll(0)
    assert producer.flush(120.0) == 0


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_nothing_stands_still_for_long(kafka: KafkaCluster, protocol: str) -> None:
    seed = int(os.environ.get("RACK_SEED", time.time_ns() % 1_000_000))
    source = random.Random(seed)
    topic = f"chaos-{protocol}"
    kafka.create_topic(topic, PARTITIONS)
    tuning: dict[str, object] = {
        "auto.offset.reset": "earliest",
        "group.protocol": protocol,
        "metadata.max.age.ms": 5000,
        "request.timeout.ms": 5000,
    }
    if protocol == "classic":
        tuning |= {"session.timeout.ms": int(SESSION * 1000), "heartbeat.interval.ms": 1500}
    apps = [
        make(kafka, topic, {**tuning, "client.rack": rack}, stall_after=f"{STALL_AFTER:g}s") for rack in RACKS.values()
    ]
    progress = Progress(topic, apps)
    for app in apps:
        app.consumer(topic, max_messages=100)(progress.handle)
    stop, blows = threading.Event(), Counter[str]()
    writer = threading.Thread(target=write, args=(kafka, topic, progress, stop))
    sources: set[int | None] = set()
    with ExitStack() as stack, Pulse() as pulse:
        for app in apps:
            stack.enter_context(running(app))
        writer.start()
        eventually(lambda: len(progress.processed) == PARTITIONS, 60.0, "all partitions are read")
        # Internal topics lead as well: their coordinators die and move.
        moves = BrokerMoves(kafka, [topic, *kafka.internal_topics])
        sampling = threading.Event()

        def sample() -> None:
            while not sampling.wait(0.1):
                progress.sample(pulse)

        sampler = threading.Thread(target=sample)
        sampler.start()
        try:
            deadline, pause = Deadline(SECONDS), threading.Event()
            while not deadline.over:
                kind = source.choice(BLOWS)
                blows[kind] += 1
                moves.blow(kind, source.randint(1, 3))
                pause.wait(source.uniform(1.0, 8.0))
                moves.undo()
                moves.move_leaders()
                pause.wait(min(source.uniform(1.0, 6.0), deadline.left))
                sources |= {lane["source"] for app in apps for lane in app.statistics()["lanes"]}
        finally:
            stop.set()
            writer.join()
            eventually(
                lambda: all(
                    set(range(progress.acknowledged[at] + 1)) <= set(progress.processed[at]) for at in range(PARTITIONS)
                ),
                60.0,
                lambda: f"each acknowledged record is processed: {[app.statistics()['lanes'] for app in apps]}",
            )
            sampling.set()
            sampler.join()
            moves.undo()
    total = sum(progress.acknowledged[at] + 1 for at in range(PARTITIONS))
    repeated = sum(times - 1 for counts in progress.processed.values() for times in counts.values())
    longest = max((length for _, length, _ in progress.stalls), default=0.0)
    names = Counter(name for _, _, reasons in progress.stalls for name in reasons)
    unnamed = [(at, length) for at, length, reasons in progress.stalls if length > NAMED_AFTER and not reasons]
    print(
        f"\nRACK_SEED={seed}, {protocol}, Kafka {kafka.version}, {dict(blows)}: {total} records, {repeated} twice, "
        f"sources {sorted(filter(None, sources))}; {len(progress.stalls)} stalls of more than {STALL_AFTER:g} s, "
        f"longest {longest:.1f} s, {dict(names)}"
    )
    assert longest <= LONGEST, sorted(progress.stalls, key=lambda stall: -stall[1])[:5]
    assert not unnamed, unnamed
