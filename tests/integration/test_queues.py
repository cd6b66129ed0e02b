"""Queues on share groups (KIP-932): more workers than partitions, acknowledgements, locks, kills, strangers."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from queue import Empty

import confluent_kafka
import pytest
from click.testing import CliRunner

import grete
from grete._cli import main as cli
from grete.client import Admin, Producer, Reset, ShareConsumer
from grete.errors import GroupNotEmptyError, KafkaError, OffsetError, UnknownTopicError
from tests.integration.app_process import AppRun
from tests.integration.test_failed_partitions import address, events
from tests.integration.test_topic_patterns import check_first_topic
from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.kafka.java import JavaShareConsumer
from tests.unit.probe_client import send_probe

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.timeout(180),
]

LOCK = 2.0
BROKER = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "share.coordinator.state.topic.num.partitions": 3,
    "group.share.min.record.lock.duration.ms": 1000,
    "group.share.record.lock.duration.ms": int(LOCK * 1000),
    "group.share.min.heartbeat.interval.ms": 100,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.session.timeout.ms": 1000,
    "group.share.session.timeout.ms": 5000,
}


@pytest.fixture(scope="module")
def kafka() -> Iterator[KafkaCluster]:
    """A broker whose locks are short."""
    with new_cluster(properties=BROKER) as cluster:
        if cluster.version.startswith(("3.", "4.0", "4.1")):
            pytest.skip("share groups are there from Kafka 4.2 on")
        yield cluster


class Queue:
    """A topic, and a share group that reads it from its first record on."""

    def __init__(self, kafka: KafkaCluster, name: str, partitions: int = 1) -> None:
        self.kafka, self.topic, self.group = kafka, name, f"{name}-group"
        kafka.create_topic(name, partitions)
        with Admin(self.settings) as admin:
            admin.alter_configs("group", self.group, {"share.auto.offset.reset": "earliest"})

    @property
    def settings(self) -> dict[str, str]:
        return {"bootstrap.servers": self.kafka.bootstrap_servers}

    def fill(self, values: list[str]) -> None:
        with Producer(self.settings) as producer:
            for value in values:
                producer.produce(self.topic, value.encode())
            producer.flush()

    def app(self, workers: int = 4) -> grete.App:
        return grete.App(f"{self.topic}-app", kafka=self.settings, group=self.group, workers=workers)

    def consumer(self, **options: int) -> ShareConsumer:
        consumer = ShareConsumer({**self.settings, "group.id": self.group}, **options)
        consumer.subscribe([self.topic])
        return consumer

    def left(self) -> list[str]:
        """What another member gets within a few seconds."""
        found = []
        with self.consumer() as consumer:
            until = time.monotonic() + LOCK + 2
            while time.monotonic() < until:
                found += [(message.value or b"").decode() for message in consumer.poll(0.2)]
            consumer.commit()
        return found


def numbers(count: int, prefix: str = "v") -> list[str]:
    return [f"{prefix}{number}" for number in range(count)]


def test_more_workers_than_partitions_work_at_the_same_time(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "wide")
    queue.fill(numbers(48))
    app, seen, busy, most = queue.app(workers=12), Counter[str](), 0, 0
    lock = threading.Lock()

    @app.consumer(queue.topic, queue=True)
    def work(message: grete.Message) -> None:
        nonlocal busy, most
        with lock:
            busy += 1
            most = max(most, busy)
        time.sleep(0.1)
        with lock:
            busy -= 1
            seen[(message.value or b"").decode()] += 1

    app.start()
    eventually(lambda: len(seen) == 48, 60, lambda: f"{len(seen)} of 48")
    eventually(lambda: app.statistics()["queues"][0]["held"] == 0, 10, lambda: str(app.statistics()["queues"]))
    counts = app.statistics()["queues"][0]
    with pytest.raises(grete.GreteError, match="a queue has none"):
        app.seek(queue.topic, 0, "earliest")
    app.stop()
    assert (counts["group"], counts["accepted"], counts["redelivered"], counts["locks_lost"]) == (queue.group, 48, 0, 0)
    assert most > 8
    assert seen == Counter(numbers(48)), "no record may come twice while nothing fails"
    assert queue.left() == []


def test_async_handlers_of_a_queue_run_at_the_same_time(kafka: KafkaCluster) -> None:
    import asyncio

    queue = Queue(kafka, "async", partitions=2)
    queue.fill(numbers(200))
    app, seen = queue.app(), Counter[str]()

    @app.consumer(queue.topic, queue=True, max_in_flight=50)
    async def work(message: grete.Message) -> None:
        await asyncio.sleep(0.1)
        seen[(message.value or b"").decode()] += 1

    app.start()
    begin = time.monotonic()
    eventually(lambda: len(seen) == 200, 60, lambda: f"{len(seen)} of 200")
    assert time.monotonic() - begin < 15, "200 calls of 0.1 s"
    app.stop()
    assert seen == Counter(numbers(200))
    assert queue.left() == []


def test_a_record_that_keeps_failing_is_dead_lettered_and_the_others_go_on(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "failing")
    kafka.create_topic("failing-dead", 1)
    queue.fill(["good0", "bad", "good1"])
    app, attempts, done = queue.app(), list[int](), list[str]()

    @app.consumer(queue.topic, queue=True, dead_letter="failing-dead", retry=grete.Retry(attempts=3, backoff="50ms"))
    def work(message: grete.Message, attempt: grete.Attempt) -> None:
        if message.value == b"bad":
            attempts.append(int(attempt))
            raise ValueError("bad")
        done.append((message.value or b"").decode())

    app.start()
    with grete.client.Consumer({**queue.settings, "auto.offset.reset": "earliest"}) as reader:
        reader.assign([("failing-dead", 0, "earliest")])
        letters = eventually(lambda: list(reader.poll(0.1)), 60, "a dead letter")
    app.stop()
    assert (attempts, sorted(done)) == ([1, 2, 3], ["good0", "good1"])
    assert letters[0].value == b"bad"
    assert queue.left() == []


def test_a_handler_that_outlasts_the_lock_keeps_its_record(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "slow")
    queue.fill(["slow"])
    app, runs = queue.app(), list[float]()

    @app.consumer(queue.topic, queue=True)
    def work(message: grete.Message) -> None:
        runs.append(time.monotonic())
        time.sleep(3 * LOCK)

    app.start()
    eventually(lambda: runs, 30, "the handler runs")
    assert queue.left() == [], "another member got the record while its handler ran"
    app.stop()
    assert len(runs) == 1
    assert queue.left() == []


def test_the_stop_gives_back_what_no_handler_has_begun(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "stopped")
    queue.fill(numbers(40))
    app, begun = queue.app(workers=2), list[str]()

    @app.consumer(queue.topic, queue=True)
    def work(message: grete.Message) -> None:
        begun.append((message.value or b"").decode())
        time.sleep(0.3)

    app.start()
    eventually(lambda: len(begun) >= 4, 30, "handlers run")
    app.stop()
    left = queue.left()
    assert sorted([*begun, *left]) == sorted(numbers(40)), "each record once, here or there"


def test_partitions_that_are_added_are_read_at_once(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "growing")
    queue.fill(["before"])
    app, done = queue.app(), list[bytes]()

    @app.consumer(queue.topic, queue=True, stall_after="2s")
    def work(message: grete.Message) -> None:
        done.append(message.value or b"")

    app.start()
    eventually(lambda: done, 30, "the first record")
    with Admin(queue.settings) as admin:
        admin.create_partitions(queue.topic, 3)
    with Producer(queue.settings) as producer:
        for partition in range(3):
            producer.produce(queue.topic, str(partition).encode(), partition=partition)
        producer.flush()
    eventually(lambda: len(done) == 4, 20, lambda: f"only {done}")
    threading.Event().wait(4)  # twice stall_after: an idle queue is no stall
    assert not any(lane["unmoved"] or lane["waits_for"] for lane in app.statistics()["lanes"])
    app.stop()


def test_later_is_later(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "later")
    queue.fill(numbers(6))
    app, runs = queue.app(workers=2), list[tuple[str, float]]()

    @app.consumer(queue.topic, queue=True)
    def work(message: grete.Message) -> None:
        value = (message.value or b"").decode()
        first = all(name != value for name, _ in runs)
        runs.append((value, time.monotonic()))
        if first and value == "v0":
            raise grete.RetryLater("1s")

    app.start()
    eventually(lambda: len(runs) == 7, 30, lambda: str(runs))
    app.stop()
    times = [at for name, at in runs if name == "v0"]
    assert 0.9 < times[1] - times[0] < 3
    assert queue.left() == []


def test_a_queue_whose_broker_hangs_is_stalled_and_stops_all_the_same() -> None:
    # Longer than the broker hangs: the member stays, and with it the partition.
    with new_cluster(properties={**BROKER, "group.share.session.timeout.ms": 45_000}) as kafka:
        if kafka.version.startswith(("3.", "4.0", "4.1")):
            pytest.skip("share groups are there from Kafka 4.2 on")
        queue = Queue(kafka, "hung")
        probes = address()
        app = grete.App("hung-app", kafka=queue.settings, group=queue.group, probes=probes, stall_after="500ms")
        seen: list[bytes | None] = []
        stalls, moves = events(app, "partition.stalled"), events(app, "partition.moving")

        @app.consumer(queue.topic, queue=True)
        def work(message: grete.Message) -> None:
            seen.append(message.value)

        def named() -> list[dict[str, object]]:
            return [one for one in send_probe(probes, "/readyz").body["problems"] if one["reason"] == "stalled"]

        app.start()
        try:
            queue.fill(["v"])
            eventually(lambda: seen == [b"v"], 30.0, "the record")
            assert (named(), stalls) == ([], [])
            kafka.kill(1, signal.SIGSTOP)
            eventually(lambda: bool(stalls), 30.0, "a stall")
            assert (stalls[0]["topic"], stalls[0]["waits_for"]) == (queue.topic, "refused")
            assert [(one["topic"], one["waits_for"]) for one in named()] == [(queue.topic, "refused")]
            (lane,) = app.statistics()["lanes"]
            assert (lane["waits_for"], lane["unmoved"]) == ("refused", True)
            kafka.kill(1, signal.SIGCONT)
            eventually(lambda: bool(moves), 30.0, "the queue moves again")
            queue.fill(["w"])
            eventually(lambda: seen == [b"v", b"w"], 30.0, "the next record")
            assert named() == []
            kafka.kill(1, signal.SIGSTOP)
        finally:
            before = time.monotonic()
            app.stop()
        # The coordinator and the leader get 5 s each.
        assert time.monotonic() - before < 20.0
        kafka.kill(1, signal.SIGCONT)


def test_a_share_consumer_waits_for_the_first_topic_of_a_pattern(kafka: KafkaCluster) -> None:
    check_first_topic(kafka, "first", ShareConsumer)


def test_a_cancelled_poll_takes_no_records(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "cancelled")

    async def take() -> list[bytes | None]:
        with queue.consumer() as consumer:
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(consumer.poll_async(30), 1.0)
            task = asyncio.create_task(consumer.poll_async(None))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            queue.fill(["v"])
            found = await consumer.poll_async(30)
            await consumer.commit_async()
            return list(found.values())

    assert asyncio.run(take()) == [b"v"]


def test_killed_workers_lose_nothing(kafka: KafkaCluster, tmp_path: Path) -> None:
    """Three processes of eight workers on four partitions; one is killed again and again."""
    queue = Queue(kafka, "killed", partitions=4)
    values = numbers(1500)
    environment = {
        "BOOTSTRAP": kafka.bootstrap_servers,
        "GROUP": queue.group,
        "TOPIC": queue.topic,
        "WORK": 0.02,
    }
    rng = random.Random(7)
    target = "tests.integration.apps.queue_worker"

    def start(number: int) -> AppRun:
        return AppRun(target, tmp_path / str(number), environment)

    runs = [start(number) for number in range(3)]
    kills = 0
    try:
        queue.fill(values[:750])
        until = time.monotonic() + 12
        while time.monotonic() < until:
            threading.Event().wait(rng.uniform(0.3, 1.0))
            at = rng.randrange(3)
            os.kill(runs[at].pid, signal.SIGKILL)
            runs[at].wait(10)
            kills += 1
            runs[at] = start(at + 3 * kills)
        queue.fill(values[750:])

        def done() -> Counter[str]:
            found = Counter[str]()
            for path in tmp_path.rglob("*.jsonl"):
                for line in path.read_text().splitlines():
                    if '"done"' in line:
                        found[json.loads(line)["value"]] += 1
            return found

        eventually(lambda: set(done()) == set(values), 60, lambda: f"{sorted(set(values) - set(done()))[:20]} are left")
    finally:
        for run in runs:
            run.__exit__(None)
    assert kills > 5
    again = sum(done().values()) - len(values)
    assert again < 24 * kills, f"{again} records twice after {kills} kills"


def test_a_group_of_another_kind_is_named(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "other-kind")
    queue.fill(["v"])
    with grete.client.Consumer({**queue.settings, "group.id": queue.group, "group.protocol": "consumer"}) as consumer:
        consumer.subscribe([queue.topic])
        eventually(lambda: len(consumer.poll(0.1)), 30, "a record")
        with queue.consumer() as shared, pytest.raises(grete.GreteError, match="is no share group"):
            eventually(lambda: shared.poll(0.2) and False, 20, "an error")


@pytest.mark.parametrize("with_java", [False, pytest.param(True, marks=pytest.mark.apache("Java comes with Kafka"))])
def test_members_of_other_clients_share_the_queue(kafka: KafkaCluster, with_java: bool) -> None:
    """An App, confluent-kafka and Kafka's Java client: each record goes to one of them."""
    queue = Queue(kafka, f"strangers-{with_java}")
    app, own = queue.app(), list[str]()

    @app.consumer(queue.topic, queue=True)
    def work(message: grete.Message) -> None:
        own.append((message.value or b"").decode())
        time.sleep(0.02)

    java, confluent = list[str](), list[str]()
    foreign = confluent_kafka.ShareConsumer({**queue.settings, "group.id": queue.group})
    with contextlib.ExitStack() as stack:
        other = None
        if with_java:
            other = stack.enter_context(JavaShareConsumer(kafka, queue.group, queue.topic, max_poll_records="5"))
        app.start()
        foreign.subscribe([queue.topic])

        def drain() -> int:
            for message in foreign.poll(0.05):
                assert message.error() is None
                confluent.append((message.value() or b"").decode())
            with contextlib.suppress(Empty):
                while other is not None and (row := other.next(0.01)):
                    java.extend(row.get("values", []))
            return len({*own, *java, *confluent})

        with Admin(queue.settings) as admin:

            def members() -> int:
                drain()
                with contextlib.suppress(grete.UnknownGroupError):  # before its first member
                    return len(admin.describe_group(queue.group).members)
                return 0

            eventually(lambda: members() == 2 + with_java, 60, "all clients are members")
        for number in range(20):
            queue.fill(numbers(20, f"r{number}-"))
            eventually(lambda expected=20 * (number + 1): drain() == expected, 60, lambda: f"{drain()} arrived")  # type: ignore[misc]
        app.stop()
        foreign.close()
    assert sorted([*own, *java, *confluent]) == sorted(f"r{turn}-{at}" for turn in range(20) for at in range(20))
    counts = len(own), len(java), len(confluent)
    assert [count > 0 for count in counts] == [True, with_java, True], counts


def test_administrators_see_members_and_lag(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "seen")
    with Admin(queue.settings) as admin, queue.consumer(max_records=4) as consumer:
        # The group exists from its first member on, and knows its partitions when they are read.
        eventually(lambda: not len(consumer.poll(0.1)) and consumer.assignment(), 30, "a member with partitions")
        described = admin.describe_group(queue.group)
        assert (described.protocol, described.protocol_type, described.state) == ("share", "share", "Stable")
        assert [member.partitions for member in described.members] == [((queue.topic, 0),)]
        queue.fill(numbers(10))

        def lag() -> int:
            return sum(one.lag or 0 for one in admin.lag(queue.group).values())

        # Kafka's coordinator knows a partition from its first acknowledgement on.
        messages = list[object]()
        eventually(lambda: messages.extend(consumer.poll(0.5)) or messages, 30, "messages")  # type: ignore[func-returns-value]
        consumer.commit()
        eventually(lambda: lag() == 10 - len(messages), 30, lambda: f"{admin.lag(queue.group)} after {len(messages)}")
        listed = {one.group: one.type.lower() for one in admin.groups()}
        assert listed[queue.group] == "share"
    shown = CliRunner().invoke(cli, ["groups", "describe", queue.group, "--bootstrap", kafka.bootstrap_servers])
    assert shown.exit_code == 0, shown.output
    assert "share protocol" in shown.output
    shown = CliRunner().invoke(cli, ["lag", queue.group, "--bootstrap", kafka.bootstrap_servers])
    assert shown.exit_code == 0, shown.output
    assert f"lag {10 - len(messages)}" in shown.output


def test_a_queue_is_reset_to_records_that_were_done(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "reset")
    queue.fill(numbers(6))
    start = (queue.topic, 0)
    with Admin(queue.settings) as admin:
        with queue.consumer() as consumer:
            taken = list[object]()
            eventually(lambda: taken.extend(consumer.poll(0.2)) or len(taken) == 6, 30, "all records")  # type: ignore[func-returns-value]
            consumer.commit()
            with pytest.raises(GroupNotEmptyError, match="1 member"):
                admin.reset_offsets(queue.group, {start: "earliest"})
        eventually(lambda: not admin.describe_group(queue.group).members, 30, "no members")
        eventually(lambda: admin.lag(queue.group)[start].waiting == 0, 30, lambda: f"{admin.lag(queue.group)}")
        # Kafka's coordinator learns of a new start offset with the acknowledgements after it.
        before = admin.lag(queue.group)[start].committed
        assert before in (0, 6)
        with pytest.raises(OffsetError, match="offset 7 is not in the log"):
            admin.reset_offsets(queue.group, {start: 7})
        assert admin.reset_offsets(queue.group, {start: "earliest"}, dry_run=True) == {start: Reset(before, 0)}
        assert admin.lag(queue.group)[start].waiting == 0, "a dry run"
        assert admin.reset_offsets(queue.group, {start: 4}) == {start: Reset(before, 4)}
        assert queue.left() == ["v4", "v5"]
        eventually(lambda: not admin.describe_group(queue.group).members, 30, "no members")
        words = ["groups", "reset", queue.group, "--all-topics", "--to", "earliest", "--yes"]
        shown = CliRunner().invoke(cli, [*words, "--bootstrap", kafka.bootstrap_servers])
        assert shown.exit_code == 0, shown.output
    assert queue.left() == numbers(6)


def test_the_offsets_of_a_queue_are_deleted_by_topic(kafka: KafkaCluster) -> None:
    queue = Queue(kafka, "forgotten", partitions=2)
    with Producer(queue.settings) as producer:
        for partition in (0, 1):
            producer.produce(queue.topic, f"v{partition}".encode(), partition=partition)
    places = [(queue.topic, 0), (queue.topic, 1)]
    with Admin(queue.settings) as admin:
        with queue.consumer() as consumer:
            taken = list[object]()
            eventually(lambda: taken.extend(consumer.poll(0.2)) or len(taken) == 2, 30, "both records")  # type: ignore[func-returns-value]
            consumer.commit()
            with pytest.raises(GroupNotEmptyError, match=queue.group):
                admin.delete_offsets(queue.group, places)
        eventually(lambda: not admin.describe_group(queue.group).members, 30, "no members")
        with pytest.raises(KafkaError, match=rf"deleted by topic; name {queue.topic}\[1\] as well"):
            admin.delete_offsets(queue.group, places[:1])
        with pytest.raises(UnknownTopicError, match="forgotten-none"):
            admin.delete_offsets(queue.group, [("forgotten-none", 0)])
        assert queue.left() == [], "no offset is deleted yet"
        eventually(lambda: not admin.describe_group(queue.group).members, 30, "no members")
        words = ["groups", "delete-offsets", queue.group, "--topic", queue.topic, "--yes"]
        shown = CliRunner().invoke(cli, [*words, "--bootstrap", kafka.bootstrap_servers])
        assert shown.exit_code == 0, shown.output
    assert sorted(queue.left()) == ["v0", "v1"], "the group begins by share.auto.offset.reset"


class TestShareConsumer:
    """The low-level client."""

    def test_records_are_accepted_released_and_rejected(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "low")
        queue.fill(["accept", "release", "reject"])
        counts: dict[str, list[int]] = {}
        with queue.consumer() as consumer:
            until = time.monotonic() + 30
            while len(counts.get("release", [])) < 3 and time.monotonic() < until:
                for message in consumer.poll(0.2):
                    value = (message.value or b"").decode()
                    counts.setdefault(value, []).append(consumer.delivery_count(message))
                    how = "accept" if len(counts[value]) == 3 else value
                    assert consumer.acknowledge(message, how) == 1  # type: ignore[arg-type]
                    assert consumer.acknowledge(message, how) == 0  # type: ignore[arg-type]
                consumer.commit()
        assert counts == {"accept": [1], "release": [1, 2, 3], "reject": [1]}
        assert queue.left() == []

    def test_the_next_poll_accepts_and_the_close_gives_back(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "given-back")
        queue.fill(numbers(4))
        with queue.consumer(max_records=2) as consumer:
            first = eventually(lambda: list(consumer.poll(0.2)), 30, "records")
            eventually(lambda: list(consumer.poll(0.2)), 30, "records")
        done = {(message.value or b"").decode() for message in first}
        assert set(queue.left()) == set(numbers(4)) - done

    def test_two_members_share_a_partition(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "two")
        with queue.consumer(max_records=5) as one, queue.consumer(max_records=5) as two:
            eventually(lambda: one.poll(0.1) or (one.assignment() and two.assignment()), 30, "both are members")
            queue.fill(numbers(40))
            seen: dict[int, list[str]] = {1: [], 2: []}
            until = time.monotonic() + 30
            while sum(map(len, seen.values())) < 40 and time.monotonic() < until:
                for number, consumer in ((1, one), (2, two)):
                    seen[number] += [(message.value or b"").decode() for message in consumer.poll(0.1)]
            one.commit()
            two.commit()
        assert sorted([*seen[1], *seen[2]]) == sorted(numbers(40))
        assert len(seen[1]) > 5
        assert len(seen[2]) > 5

    def test_records_of_another_partition_are_not_acknowledged(self, kafka: KafkaCluster) -> None:
        """A record has its own topic and partition: one with the same offset is another one."""
        queue, other = Queue(kafka, "own"), Queue(kafka, "foreign")
        queue.fill(["a"])
        other.fill(["b"])
        with queue.consumer() as consumer, other.consumer() as foreign:
            own = eventually(lambda: list(consumer.poll(0.2)), 30, "records")
            strange = eventually(lambda: list(foreign.poll(0.2)), 30, "records")
            assert own[0].offset == strange[0].offset == 0
            with pytest.raises(ValueError, match=r"foreign\[0\] offset 0 is not of this consumer's own\[0\]"):
                consumer.acknowledge(strange[0], "reject")
            with pytest.raises(ValueError, match="ask for what the last poll returned"):
                consumer.delivery_count(strange[0])
            assert consumer.delivery_count(own[0]) == 1
            assert consumer.acknowledge(own[0]) == 1

    def test_a_deleted_topic_keeps_no_commit_waiting(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "vanishes")
        queue.fill(numbers(3))
        with queue.consumer(max_records=3) as consumer, Admin(queue.settings) as admin:
            held = eventually(lambda: list(consumer.poll(0.2)), 30, "records")
            admin.delete_topic(queue.topic)
            consumer.commit(timeout=30)
            assert consumer.statistics()["held"] == 3 - len(held)
            kafka.create_topic(queue.topic, 1)
            queue.fill(["again"])
            seen = eventually(lambda: list(consumer.poll(0.2)), 60, "records of the new topic")
            assert [message.value for message in seen] == [b"again"]
            consumer.commit(timeout=30)

    def test_an_idle_close_waits_for_no_long_poll(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "idle")
        settings = {**queue.settings, "group.id": queue.group, "fetch.max.wait.ms": 60_000}
        with ShareConsumer(settings) as consumer:
            consumer.subscribe([queue.topic])
            eventually(lambda: consumer.poll(0.1) or consumer.assignment(), 30, "a member")
            started = time.monotonic()
        assert time.monotonic() - started < 5

    def test_wrong_arguments_are_named(self, kafka: KafkaCluster) -> None:
        queue = Queue(kafka, "wrong")
        with pytest.raises(grete.ConfigError, match=r"needs group\.id"):
            ShareConsumer(queue.settings)
        with queue.consumer() as consumer:
            with pytest.raises(ValueError, match="the last poll has returned no records"):
                consumer.acknowledge(grete.Messages.empty())
            with pytest.raises(grete.ConfigError, match="a list of topics"):
                consumer.subscribe("wrong")
        with pytest.raises(grete.ClosedError):
            consumer.poll(0)
