"""What a handler produces and the offsets of what it consumed belong together: with a real broker."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import FAST, dead_letters, header, make, running, until_done
from tests.integration.producers import producer, values
from tests.kafka import KafkaCluster, eventually, new_cluster

pytestmark = pytest.mark.kafka
LARGE = b"x" * 5000


def topics(kafka: KafkaCluster, topic: str, records: list[bytes]) -> str:
    """A source with these records, and the target, which takes no large ones."""
    kafka.create_topic(topic, partitions=1)
    target = f"{topic}.out"
    kafka.create_topic(target, partitions=1, config={"max.message.bytes": "1000"})
    kafka.create_topic(f"{topic}.dlq", partitions=1)
    with producer(kafka.bootstrap_servers) as source:
        source.produce_many(topic, records, partition=0).wait(30)
    return target


def test_a_handler_that_goes_on_after_a_refused_record_fails_all_the_same(
    kafka: KafkaCluster, topic: str, group: str
) -> None:
    target = topics(kafka, topic, [b"small", LARGE, b"last"])
    caught: list[str] = []
    app = make(kafka, group)

    @app.consumer(topic, retry=FAST, dead_letter=f"{topic}.dlq")
    class Sync(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                try:
                    self.producer.produce_sync(target, message.value)
                except grete.DeliveryError as error:
                    caught.append(str(error.name))

    with running(app):
        until_done(kafka, app, topic)
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert letter.value == LARGE
    assert header(letter, "grete.error.class").endswith("DeliveryError")
    assert set(caught) == {"MESSAGE_TOO_LARGE"}
    assert {b"small", b"last"} <= set(values(kafka, target))


def test_what_may_get_lost_fails_nothing(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = topics(kafka, topic, [b"small", LARGE, b"last"])
    app = make(kafka, group)

    @app.consumer(topic, retry=FAST)
    class Forgets(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.fire_and_forget.produce(target, message.value)

    app.start()
    until_done(kafka, app, topic)
    app.stop()
    assert values(kafka, target) == [b"small", b"last"]


def test_a_synchronous_mark_waits_for_what_was_produced_before_it(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = topics(kafka, topic, [b"a", b"b", LARGE])
    seen: list[Any] = []
    app = make(kafka, group, {"linger.ms": 1000})

    @app.consumer(topic, retry=FAST, dead_letter=f"{topic}.dlq", offsets="manual")
    class Marks(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                self.producer.produce(target, message.value)
                self.mark(message, sync=True)
                seen.append((message.offset, values(kafka, target)[-1]))

    with running(app):
        until_done(kafka, app, topic)
    assert seen == [(0, b"a"), (1, b"b")], "the third raises, until it is a dead letter"
    (letter,) = dead_letters(kafka, f"{topic}.dlq")
    assert (letter.value, header(letter, "grete.error.class").endswith("DeliveryError")) == (LARGE, True)


def test_what_a_handler_had_done_before_it_raised_is_not_done_again(
    kafka: KafkaCluster, topic: str, group: str
) -> None:
    target = topics(kafka, topic, [b"0", b"1", b"2"])
    calls: list[bytes | None] = []
    app = make(kafka, group, {"linger.ms": 200})

    @app.consumer(topic, retry=grete.Retry(attempts=9, backoff="1ms..5ms"))
    class Raises(grete.Consumer):
        def consume(self) -> None:
            for message in self.messages:
                calls.append(message.value)
                if message.value == b"2" and calls.count(b"2") < 3:
                    raise ValueError("not yet")
                self.producer.produce(target, message.value)
                self.mark(message)

    with running(app):
        until_done(kafka, app, topic)
    assert (calls, values(kafka, target)) == ([b"0", b"1", b"2", b"2", b"2"], [b"0", b"1", b"2"])


def test_hooks_are_over_when_what_they_have_produced_is_written(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = topics(kafka, topic, [b"a"])
    app = make(kafka, group, {"linger.ms": 500})
    done = threading.Event()

    @app.consumer(topic)
    class Sums(grete.Consumer):
        def initialize(self) -> None:
            self.producer.produce(target, b"begins")

        def consume(self) -> None:
            done.set()

        def shutdown(self) -> None:
            self.producer.produce(target, b"ends")

    with running(app):
        assert done.wait(30)
    assert values(kafka, target) == [b"begins", b"ends"]


def test_a_job_that_waits_for_a_broker_is_named_and_holds_no_worker(topic: str, group: str) -> None:
    """One worker; the broker is stopped; what waits is said in the log's event, and a stop is not held up."""
    named = threading.Event()
    produced = threading.Event()
    with new_cluster() as kafka:
        target = topics(kafka, topic, [b"a"])
        tuning = {"delivery.timeout.ms": 60_000, "request.timeout.ms": 30_000}
        app = make(kafka, group, tuning, workers=1, shutdown_timeout="8s")

        @app.consumer(topic, stall_after="500ms")
        class Waits(grete.Consumer):
            def initialize(self) -> None:
                self.producer.partitions(target)
                for node in kafka.nodes:
                    kafka.kill(node, signal.SIGSTOP)

            def consume(self) -> None:
                self.producer.produce(target, b"never")
                produced.set()

        @app.monitor.subscribe("consumer.undelivered")
        def undelivered(event: grete.instrumentation.Event) -> None:
            assert (event["topic"], event["undelivered"]) == (topic, 1)
            named.set()

        try:
            app.start()
            assert produced.wait(30)
            assert named.wait(30)
            eventually(lambda: app.statistics()["busy"] == 0, 10, "the worker is free")
            with pytest.raises(grete.GreteError):
                app.stop()
        finally:
            for node in kafka.nodes:
                kafka.kill(node, signal.SIGCONT)


@pytest.mark.parametrize("hook", ["tick", "eof", "revoked", "shutdown"])
def test_a_hook_that_fails_ends_nothing(kafka: KafkaCluster, topic: str, group: str, hook: str) -> None:
    topics(kafka, topic, [b"a"])
    app = make(kafka, group)
    failed: list[str] = []

    def fail(_consumer: grete.Consumer) -> None:
        raise ValueError("not today")

    def consume(_consumer: grete.Consumer) -> None:
        pass

    @app.monitor.subscribe("consumer.error")
    def error(event: grete.instrumentation.Event) -> None:
        failed.append(str(event["hook"]))

    settings: Any = {"tick": "100ms"} if hook == "tick" else {}
    app.consumer(topic, **settings)(type("Fails", (grete.Consumer,), {"consume": consume, hook: fail}))
    with running(app):
        until_done(kafka, app, topic)
        if hook in ("tick", "eof"):
            eventually(lambda: failed, 20, "the hook has failed")
            with producer(kafka.bootstrap_servers) as source:
                source.produce(topic, b"b", partition=0).wait(30)
            until_done(kafka, app, topic)
    assert set(failed) <= {hook}
    assert hook == "revoked" or failed


def test_a_synchronous_mark_waits_for_its_own_job_alone(kafka: KafkaCluster, topic: str, group: str) -> None:
    target = topics(kafka, topic, [b"a"])
    app = make(kafka, group, {"linger.ms": 60_000})
    done = threading.Event()

    @app.consumer(topic)
    class Marks(grete.Consumer):
        def consume(self) -> None:
            open_one = self.producer.fire_and_forget.produce(f"{topic}.dlq", b"lingers")
            self.producer.produce(target, b"a")
            self.mark(self.messages, sync=True)
            assert not open_one.done
            done.set()

        def shutdown(self) -> None:
            with pytest.raises(grete.GreteError, match="belongs to the App"):
                self.producer.close()

    with running(app):
        assert done.wait(30)


def test_marks_that_are_dropped_after_their_job_fail_the_partition_by_name(
    kafka: KafkaCluster, topic: str, group: str
) -> None:
    target = topics(kafka, topic, [b"a", LARGE, b"c"])
    app = make(kafka, group)
    taken: list[grete.Message] = []
    sizes = [5000]
    dropped = threading.Event()

    @app.consumer(topic, offsets="manual")
    class Later(grete.Consumer):
        def initialize(self) -> None:
            self.background(self.work)

        def consume(self) -> None:
            taken.extend(self.messages)

        def work(self) -> None:
            done = 0
            while not self.stopping.wait(0.02):
                for message in taken[done:]:
                    done += 1
                    self.producer.produce(target, (message.value or b"")[: sizes[-1]])
                    with contextlib.suppress(grete.DeliveryError):
                        self.mark(message)

    @app.monitor.subscribe("consumer.marks_dropped")
    def marks_dropped(event: grete.instrumentation.Event) -> None:
        assert (event["topic"], event["offset"]) == (topic, 1)
        dropped.set()

    with running(app):
        assert dropped.wait(30)
        eventually(lambda: kafka.admin.committed(group) == {(topic, 0): 1}, 20, "the first is committed")
        (lane,) = app.statistics()["lanes"]
        assert (lane["state"], lane["reason"]) == ("failed", "undelivered")
        sizes.append(10)
        app.seek(topic, 0, 1)
        until_done(kafka, app, topic)
        (lane,) = app.statistics()["lanes"]
        assert lane["state"] != "failed"
    assert set(values(kafka, target)) >= {b"a", LARGE[:10], b"c"}
