"""Records per second of share groups: Grete's App and ShareConsumer, confluent-kafka and Java, one after the other.

    python -m benchmarks.queue [--records 100000] [--partitions 4] [--rounds 3] [--workers 24]

Each client reads the same topic from its first record on, in a group of its own, and accepts each record. The clock
runs from the first record to the last one; CPU seconds are those of the client's process meanwhile. The App runs in
this process, with threads; the handler does nothing.
"""

import argparse
import statistics
import time
from collections.abc import Callable, Generator

import confluent_kafka

import grete
from grete.client import Admin, Producer, ShareConsumer
from tests.kafka import ApacheCluster
from tests.kafka.java import JavaShareConsumer

TOPIC = "queue"
_BROKER = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
}
# Arrivals: number of records so far, and the CPU seconds of the client.
Arrivals = Generator[tuple[int, float], None, None]


def main() -> None:
    """Measures, and prints a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--records", type=int, default=100_000)
    parser.add_argument("--partitions", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--workers", type=int, default=24)
    options = parser.parse_args()
    with ApacheCluster("4.3.0", 1, _BROKER) as kafka:
        kafka.create_topic(TOPIC, options.partitions)
        settings = {"bootstrap.servers": kafka.bootstrap_servers}
        with Producer(settings) as producer:
            for _ in range(options.records):
                producer.produce(TOPIC, b"x" * 100)
            producer.flush()
        clients: dict[str, Callable[[str], Arrivals]] = {
            "Grete App": lambda group: _app(settings, group, options.workers),
            "Grete ShareConsumer": lambda group: _low_level(settings, group),
            "confluent-kafka": lambda group: _confluent(settings, group),
            "Java": lambda group: _java(kafka, group),
        }
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in clients}
        for round_number in range(options.rounds):
            for name, client in clients.items():
                group = f"{name.replace(' ', '-')}-{round_number}"
                with Admin(settings) as admin:
                    admin.alter_configs("group", group, {"share.auto.offset.reset": "earliest"})
                found[name].append(_measure(client(group), options.records))
                print(f"{name}: {found[name][-1][0]:,.0f} records/s", flush=True)
    for name, rounds in found.items():
        rate, cpu = (statistics.median(figures) for figures in zip(*rounds, strict=True))
        print(f"| {name} | {rate:,.0f} records/s | {cpu * 1e6:.2f} us CPU a record |")


def _measure(arrivals: Arrivals, records: int) -> tuple[float, float]:
    """Returns records per second, and CPU seconds a record."""
    begun: tuple[float, int, float] | None = None
    for count, cpu in arrivals:
        now = time.monotonic()
        if begun is None:
            begun = now, count, cpu
        elif count >= records:
            seconds, read = now - begun[0], count - begun[1]
            arrivals.close()
            return read / seconds, (cpu - begun[2]) / read
    raise RuntimeError("the client has ended before the last record")


def _app(settings: dict[str, str], group: str, workers: int) -> Arrivals:
    app = grete.App(group, kafka=settings, group=group, workers=workers)
    count = 0

    @app.consumer(TOPIC, queue=True)
    def work(_message: grete.Message) -> None:
        nonlocal count
        count += 1

    app.start()
    try:
        while True:
            time.sleep(0.002)
            if count:
                yield count, time.process_time()
    finally:
        app.stop()


def _low_level(settings: dict[str, str], group: str) -> Arrivals:
    count = 0
    with ShareConsumer({**settings, "group.id": group}) as consumer:
        consumer.subscribe([TOPIC])
        while True:
            count += len(consumer.poll(1.0))
            if count:
                yield count, time.process_time()


def _confluent(settings: dict[str, str], group: str) -> Arrivals:
    consumer = confluent_kafka.ShareConsumer({**settings, "group.id": group})
    consumer.subscribe([TOPIC])
    count = 0
    try:
        while True:
            count += len(consumer.poll(1.0))
            if count:
                yield count, time.process_time()
    finally:
        consumer.close()


class _Counter(JavaShareConsumer):
    options = {"values": "false"}  # noqa: RUF012


def _java(kafka: ApacheCluster, group: str) -> Arrivals:
    with _Counter(kafka, group, TOPIC) as consumer:
        while row := consumer.next(60.0):
            yield row["count"], row["cpu_ns"] / 1e9


if __name__ == "__main__":
    main()
