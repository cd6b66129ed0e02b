"""The main job, end to end: `make demo`.

Starts Apache Kafka on a free port, lets confluent-kafka (librdkafka) write a million records, runs an App with a
consumer class over them, and shows rate, count and lag until nothing is left. Then it stops cleanly and checks that
every record was processed once. Then a second, small App shows what happens when handlers fail: see demo_failures.py.
"""

import argparse
import logging
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import grete
from examples import demo_failures
from tests.kafka import KafkaCluster, fill

TOPIC = "demo-orders"
CHUNK = 50_000


class Tally:
    """What all consumers have seen, and what is left to see."""

    def __init__(self, partitions: int) -> None:
        self._lock = threading.Lock()
        self.records = self.bytes = self.batches = 0
        self.next_offsets = dict.fromkeys(range(partitions), 0)
        self.gaps = 0

    def add(self, messages: grete.Messages, size: int) -> None:
        """Counts a batch, and what it skipped or repeated."""
        with self._lock:
            self.records += len(messages)
            self.bytes += size
            self.batches += 1
            self.gaps += messages.first_offset != self.next_offsets[messages.partition]
            self.next_offsets[messages.partition] = messages.last_offset + 1


def make_app(bootstrap: str, tally: Tally, workers: int) -> grete.App:
    """An App as a user would write it."""
    app = grete.App("demo", kafka={"bootstrap.servers": bootstrap}, workers=workers, max_messages=10_000)

    @app.consumer(TOPIC)
    class Orders(grete.Consumer):
        def consume(self) -> None:
            size = 0
            for message in self.messages:
                size += len(message.value or b"")
            tally.add(self.messages, size)

        def shutdown(self) -> None:
            say(f"{self.topic}[{self.partition}] stops at offset {tally.next_offsets[self.partition]:,}")

    return app


def say(text: str, *, again: bool = False) -> None:
    """A line; on a terminal, `again` writes over the last one."""
    line = f"\r\x1b[K{text}" if again and sys.stdout.isatty() else f"{text}\n"
    sys.stdout.write(line)  # in one piece: several threads say something
    sys.stdout.flush()


def write(bootstrap: str, records: int, partitions: int, size: int) -> None:
    """A producer that is not ours fills the topic."""
    started = time.monotonic()
    for first in range(0, records, CHUNK):
        count = min(CHUNK, records - first)
        fill(bootstrap, TOPIC, count, partitions=partitions, value_size=size, codec="lz4", first_index=first)
        rate = (first + count) / (time.monotonic() - started)
        say(f"written {first + count:>12,} of {records:,} records, {rate:,.0f}/s", again=True)
    say("")


def watch(app: grete.App, tally: Tally, records: int, done: threading.Event) -> None:
    """Shows how it goes, and stops the App when nothing is left."""
    started = last = time.monotonic()
    seen = 0
    while not done.wait(0.25):
        now, count = time.monotonic(), tally.records
        rate, lag = (count - seen) / (now - last), records - count
        say(f"read    {count:>12,} records, {rate:>12,.0f}/s, lag {lag:,}, batches {tally.batches:,}", again=True)
        last, seen = now, count
        if lag <= 0:
            say("")
            say(f"all read after {now - started:.1f} s, the group's joining included; stopping")
            app.stop()
            return


def committed(bootstrap: str, partitions: int) -> int:
    """What the group has committed, as the broker says."""
    with grete.client.Consumer({"bootstrap.servers": bootstrap, "group.id": "demo"}) as consumer:
        return sum(offset or 0 for offset in consumer.committed([(TOPIC, n) for n in range(partitions)]).values())


def verdict(right: bool) -> str:
    """In a word."""
    return "all is well" if right else "THIS IS WRONG"


def main() -> int:
    """Runs the demo; 0 if all was read once and committed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=8)
    parser.add_argument("--size", type=int, default=100, help="bytes of a value")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    logging.basicConfig(level="WARNING", format="%(levelname)s %(name)s: %(message)s")

    say("starting Apache Kafka")
    with KafkaCluster() as kafka:
        say(f"Kafka {kafka.version} at {kafka.bootstrap_servers}")
        kafka.create_topic(TOPIC, partitions=options.partitions)
        write(kafka.bootstrap_servers, options.records, options.partitions, options.size)

        tally = Tally(options.partitions)
        app = make_app(kafka.bootstrap_servers, tally, options.workers)
        done = threading.Event()
        watcher = threading.Thread(target=watch, args=(app, tally, options.records, done), name="watch")
        started, cpu = time.monotonic(), time.process_time()
        watcher.start()
        try:
            app.run()
        finally:
            done.set()
            watcher.join()
        seconds, cpu = time.monotonic() - started, time.process_time() - cpu

        at_broker = committed(kafka.bootstrap_servers, options.partitions)
        right = tally.records == options.records == at_broker and not tally.gaps
        say(
            f"{tally.records:,} records, {tally.bytes:,} bytes, {seconds:.1f} s with start and stop, {cpu:.2f} s of CPU"
        )
        say(
            f"committed {at_broker:,}; gaps or repetitions: {tally.gaps}: {'all is well' if right else 'THIS IS WRONG'}"
        )

        recovered = demo_failures.show(kafka, say)
        say("")
        say(f"five payments, each paid once: {'all is well' if recovered else 'THIS IS WRONG'}")
    return 0 if right and recovered else 1


if __name__ == "__main__":
    sys.exit(main())
