"""A thread that waits leads its client's loop: what happens in each state of the lead, and what it costs."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median

import pytest

import grete
from grete.client import Producer
from tests.integration.frame_proxy import FrameAction, FrameProxy, always
from tests.integration.native_threads import leads, network_threads, stop_at_many_moments, switches
from tests.integration.producers import producer as make
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.jars import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]
HEARTBEAT = 12


@contextmanager
def alarm(call: Callable[[], object], prepare: Callable[[], object] = lambda: None) -> Iterator[None]:
    """Sends the main thread a SIGUSR1 once it leads and `prepare` has been called; its handler calls `call`."""
    before = signal.signal(signal.SIGUSR1, lambda *_: call())
    main = threading.main_thread()

    def send() -> None:
        eventually(lambda: leads(main.native_id), 30.0, "the main thread leads")
        prepare()
        signal.pthread_kill(main.ident or 0, signal.SIGUSR1)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join(60.0)
        signal.signal(signal.SIGUSR1, before)


def interrupt() -> None:
    raise KeyboardInterrupt


# ---- what it costs


def test_a_synchronous_send_wakes_no_other_thread(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """Each answer is held until the caller leads: one that arrives before goes to the network thread."""
    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", partition=0, timeout=30.0)
        threads = network_threads("grete-producer")
        main = threading.main_thread()
        before = sum(map(switches, threads))

        def release() -> None:
            eventually(lambda: leads(main.native_id), 30.0, "the main thread leads")
            proxy.release()

        for _ in range(100):
            proxy.treat(answers=always(FrameAction.HOLD))
            answer = threading.Thread(target=release)
            answer.start()
            producer.produce_sync(topic, b"x", partition=0, timeout=30.0)
            answer.join(30.0)
        woken = sum(map(switches, threads)) - before
    # Sends in quick succession: the network thread checks the gate every 5 ms.
    assert woken < 50, "the network thread sleeps while the caller leads"


def fewest_wakes(producer: Producer, topic: str) -> int:
    """Returns how often 100 sends woke the network thread, in the best of ten rounds: on a busy machine answers come
    before the caller leads. Without a leader each round has 100."""
    rounds = []
    for _ in range(10):
        before = sum(map(switches, network_threads("grete-producer")))
        for _ in range(100):
            producer.produce_sync(topic, b"x", partition=0, timeout=30.0)
        rounds.append(sum(map(switches, network_threads("grete-producer"))) - before)
    return min(rounds)


def test_fast_answers_wake_the_network_thread_seldom(kafka: KafkaCluster, topic: str) -> None:
    """An answer that comes before the caller leads wakes the network thread. Without a leader, each answer does."""
    kafka.create_topic(topic)
    with make(kafka.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", partition=0, timeout=30.0)
        assert fewest_wakes(producer, topic) < 50, "most answers are read by the caller"


def test_many_threads_send_at_once(kafka: KafkaCluster, topic: str) -> None:
    """No caller leads then. Each gets its own answer, and a single caller leads again afterwards."""
    kafka.create_topic(topic)
    with make(kafka.bootstrap_servers) as producer:
        offsets: list[int | None] = []

        def send() -> None:
            offsets.extend(producer.produce_sync(topic, b"x", partition=0, timeout=30.0).offset for _ in range(100))

        senders = [threading.Thread(target=send) for _ in range(16)]
        for sender in senders:
            sender.start()
        for sender in senders:
            sender.join(60.0)
        assert sorted(offset for offset in offsets if offset is not None) == list(range(1600))
        assert fewest_wakes(producer, topic) < 50


def test_poll_wakes_no_other_thread(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with (
        make(kafka.bootstrap_servers) as producer,
        grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer,
    ):
        producer.produce_sync(topic, b"first", partition=0, timeout=30.0)
        consumer.assign([(topic, 0, 0)])
        assert consumer.poll(30.0)
        threads = network_threads("grete-net")
        before = sum(map(switches, threads))
        for number in range(100):
            sender = threading.Timer(0.005, producer.produce_sync, (topic, b"%d" % number), {"partition": 0})
            sender.start()
            assert [message.value for message in consumer.poll(30.0)] == [b"%d" % number]
            sender.join()
        woken = sum(map(switches, threads)) - before
    assert woken < 50, "the network thread sleeps while the caller leads"


def test_an_idle_poll_wakes_with_the_answers_alone(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer:
        consumer.assign([(topic, 0, 0)])
        assert not consumer.poll(1.0)
        threads = [threading.get_native_id(), *network_threads("grete-net")]
        before = sum(map(switches, threads))
        assert not consumer.poll(5.0)
        woken = sum(map(switches, threads)) - before
    assert woken <= 3 * 5, "two answers a second without records"


# ---- fork, close, exceptions and stops in each state


def test_a_fork_beside_a_leader(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    """One thread leads when another one forks. The child gets an error, and the leader its answer."""
    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", timeout=30.0)
        proxy.treat(answers=always(FrameAction.HOLD))
        offsets: list[int | None] = []
        thread = threading.Thread(
            target=lambda: offsets.append(producer.produce_sync(topic, b"second", timeout=60.0).offset)
        )
        thread.start()
        eventually(lambda: leads(thread.native_id), 30.0, "a thread leads")
        child = os.fork()
        if child == 0:
            status = 1
            try:
                producer.produce_sync(topic, b"third", timeout=1.0)
            except grete.ForkedClientError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert leads(thread.native_id)
        proxy.release()
        thread.join(30.0)
        assert offsets == [1]
        assert producer.produce_sync(topic, b"third", timeout=30.0).offset == 2


@pytest.mark.parametrize("answers", ["held", "read"])
def test_an_exception_of_a_signal_handler_ends_the_lead(
    broker: KafkaCluster, proxy: FrameProxy, topic: str, answers: str
) -> None:
    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", timeout=30.0)
        if answers == "held":
            proxy.treat(answers=always(FrameAction.HOLD))
            with pytest.raises(KeyboardInterrupt), alarm(interrupt):
                producer.produce_sync(topic, b"second", timeout=60.0)
            proxy.release()
        else:
            with grete.client.Consumer({"bootstrap.servers": broker.bootstrap_servers}) as consumer:
                consumer.assign([(topic, 0, 1)])
                with pytest.raises(KeyboardInterrupt), alarm(interrupt):
                    consumer.poll(60.0)
                producer.produce_sync(topic, b"second", timeout=30.0)
                assert [message.value for message in consumer.poll(30.0)] == [b"second"], "the lead is free again"
        assert producer.produce_sync(topic, b"third", timeout=30.0).offset == 2


def test_a_signal_handler_that_raises_nothing_lets_the_leader_wait_on(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    with (
        make(kafka.bootstrap_servers) as producer,
        grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers}) as consumer,
    ):
        consumer.assign([(topic, 0, 0)])
        assert not consumer.poll(0.5)
        # The handler itself sends, while the thread that it interrupts has led.
        with alarm(lambda: producer.produce_sync(topic, b"from the handler", timeout=30.0)):
            messages = consumer.poll(60.0)
        assert [message.value for message in messages] == [b"from the handler"]


def test_a_close_ends_a_poll_that_leads(kafka: KafkaCluster, topic: str) -> None:
    kafka.create_topic(topic)
    consumer = grete.client.Consumer({"bootstrap.servers": kafka.bootstrap_servers})
    consumer.assign([(topic, 0, 0)])
    ended: list[str] = []

    def poll() -> None:
        try:
            consumer.poll(None)
        except grete.ClosedError:
            ended.append("closed")

    thread = threading.Thread(target=poll)
    thread.start()
    eventually(lambda: leads(thread.native_id), 30.0, "a thread leads")
    consumer.close(10.0)
    thread.join(10.0)
    assert ended == ["closed"]


def test_a_close_ends_a_send_that_leads(broker: KafkaCluster, proxy: FrameProxy, topic: str) -> None:
    producer = make(broker.bootstrap_servers)
    producer.produce_sync(topic, b"first", timeout=30.0)
    proxy.treat(answers=always(FrameAction.HOLD))
    ended: list[BaseException] = []

    def send() -> None:
        try:
            producer.produce_sync(topic, b"second", timeout=60.0)
        except grete.GreteError as error:
            ended.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    eventually(lambda: leads(thread.native_id), 30.0, "a thread leads")
    started = time.monotonic()
    producer.close(0.5)
    thread.join(30.0)
    assert time.monotonic() - started < 20.0
    assert len(ended) == 1, "the outcome is unknown, and the caller gets an error"


def test_followers_get_their_answers_when_the_leader_is_interrupted(
    broker: KafkaCluster, proxy: FrameProxy, topic: str
) -> None:
    """The main thread leads and is interrupted while others wait on their futexes."""
    with make(broker.bootstrap_servers) as producer:
        producer.produce_sync(topic, b"first", timeout=30.0)
        proxy.treat(answers=always(FrameAction.HOLD))
        offsets: list[int | None] = []

        def send() -> None:
            offsets.append(producer.produce_sync(topic, b"follower", timeout=60.0).offset)

        followers = [threading.Thread(target=send) for _ in range(4)]

        def follow() -> None:
            for follower in followers:
                follower.start()
            eventually(lambda: producer.statistics()["pending_records"] == 5, 30.0, "all have sent")

        with pytest.raises(KeyboardInterrupt), alarm(interrupt, follow):
            producer.produce_sync(topic, b"leader", timeout=60.0)
        proxy.release()
        for follower in followers:
            follower.join(30.0)
        assert len(offsets) == 4


STOPPED = """
import json, sys, threading, time
import grete
from grete.client import Producer
servers, topic, seconds = sys.argv[1], sys.argv[2], float(sys.argv[3])
settings = {"bootstrap.servers": servers}
sent, read, ends = [], [], threading.Event()

def poll():
    with grete.client.Consumer(settings | {"group.id": topic}) as consumer:
        consumer.subscribe([topic])
        while not ends.is_set() or len(read) < len(sent):
            read.extend(message.value for message in consumer.poll(0.05))

reader = threading.Thread(target=poll)
reader.start()
with grete.client.Producer(settings) as producer:
    until = time.monotonic() + seconds
    print("ready", flush=True)
    while time.monotonic() < until:
        value = b"%d" % len(sent)
        producer.produce_sync(topic, value, timeout=30.0)
        sent.append(value)
        time.sleep(0.0005)
ends.set()
reader.join(60.0)
print(json.dumps([len(sent), len(read), read == sent]))
"""


def test_stops_at_any_time_lose_nothing(kafka: KafkaCluster, topic: str) -> None:
    """SIGSTOP at 40 moments of a process that sends and polls: while threads lead, step, and run Python."""
    kafka.create_topic(topic)
    command = [sys.executable, "-c", STOPPED, kafka.bootstrap_servers, topic, "8"]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    stop_at_many_moments(process)
    output, _ = process.communicate(timeout=90.0)
    sent, read, equal = json.loads(output)
    assert equal, (sent, read)
    assert process.returncode == 0


@pytest.mark.parametrize("between", ["handler", "poll"])
def test_heartbeats_are_on_time(broker: KafkaCluster, proxy: FrameProxy, topic: str, between: str) -> None:
    """Longer than the session, no poll at all, or one that leads: the member stays, and its heartbeats come on time."""
    fill(broker.bootstrap_servers, topic, 1)
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "group.id": topic,
        "session.timeout.ms": 6000,
        "heartbeat.interval.ms": 1000,
    }
    with grete.client.Consumer(settings) as consumer:
        consumer.subscribe([topic])
        assert consumer.poll(30.0)
        generation = consumer.membership().generation
        proxy.treat(api=HEARTBEAT)
        came: list[float] = []

        def watch() -> None:
            for count in range(1, 9):
                proxy.wait_requests(count)
                came.append(time.monotonic())

        watcher = threading.Thread(target=watch)
        watcher.start()
        if between == "handler":
            threading.Event().wait(9.0)  # a handler that runs long
        else:
            assert not consumer.poll(9.0)
        watcher.join(30.0)
        consumer.commit()
        assert consumer.membership().generation == generation
        assert len(broker.admin.members(topic)) == 1
    late = [after - before - 1.0 for before, after in pairwise(came)]
    assert len(late) == 7
    # The median, because a busy machine delays this process, too.
    assert abs(median(late)) < 0.05, late
