"""An idle worker of an App with one group leads its client's loop: what happens in each state of the lead."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from statistics import median
from typing import Any

import pytest

import grete
from tests.integration.app_in_process import make as make_app
from tests.integration.app_in_process import running, until_done
from tests.integration.frame_proxy import FrameProxy
from tests.integration.native_threads import is_parked, leads, network_threads, stop_at_many_moments, switches
from tests.integration.producers import producer as make
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.jars import ROOT

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(120)]


class Deliveries:
    """Values that a handler got, and the workers that ran it."""

    def __init__(self, failures: int = 0) -> None:
        """`failures`: so many calls raise first."""
        self.values: list[bytes | None] = []
        self.attempts: list[float] = []
        """When each call began, by the monotonic clock in seconds."""
        self.native_ids: list[int] = []
        self._failures = failures

    def handle(self, message: grete.Message) -> None:
        """Notes the record."""
        self.attempts.append(time.monotonic())
        self.native_ids.append(threading.get_native_id())
        if len(self.attempts) <= self._failures:
            raise ValueError(f"attempt {len(self.attempts)}")
        self.values.append(message.value)

    def wait(self, count: int) -> None:
        """Waits until so many records were handled."""
        eventually(lambda: len(self.values) >= count, 60.0, lambda: f"{count} handled; {len(self.values)} are")


@contextmanager
def leading(app: grete.App) -> Iterator[threading.Thread]:
    """Runs the App; gives the worker that leads."""
    with running(app):
        yield leading_worker()


def leading_worker() -> threading.Thread:
    found: list[threading.Thread] = []

    def check() -> bool:
        workers = (thread for thread in threading.enumerate() if thread.name.startswith("grete-worker"))
        found[:] = [worker for worker in workers if leads(worker.native_id)]
        return len(found) == 1

    eventually(check, 60.0, "a worker leads")
    return found[0]


def app_with(kafka: KafkaCluster, topic: str, deliveries: Deliveries, **settings: Any) -> grete.App:
    """An App that has read the one record of a topic of one partition is about to lead."""
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 1)
    app = make_app(kafka, topic, **settings)
    app.consumer(topic, retry=grete.Retry(attempts=None, backoff="100ms", jitter=0.0))(deliveries.handle)
    return app


@pytest.mark.parametrize("workers", [1, 5])
def test_an_idle_worker_of_an_app_wakes_no_other_thread(kafka: KafkaCluster, topic: str, workers: int) -> None:
    """One worker leads, and has the job itself. The others sleep on, and so does the network thread."""
    kafka.create_topic(topic)
    app = make_app(kafka, topic, workers=workers)
    handled: list[int] = []
    seen = threading.Event()

    @app.consumer(topic)
    def handle(message: grete.Message) -> None:
        handled.append(threading.get_native_id())
        seen.set()

    with running(app), make(kafka.bootstrap_servers) as producer:
        for _ in range(3):
            producer.produce_sync(topic, b"first", partition=0, timeout=30.0)
            assert seen.wait(30.0)
            seen.clear()
        threads = network_threads("grete-net")
        before = sum(map(switches, threads))
        for _ in range(100):
            # Another thread leads the producer's loop meanwhile; the worker has to be asleep again for the next record.
            eventually(lambda: any(map(leads, handled[-1:])), 30.0, "the worker leads again")
            producer.produce_sync(topic, b"x", partition=0, timeout=30.0)
            assert seen.wait(30.0)
            seen.clear()
        woken = sum(map(switches, threads)) - before
    assert woken < 50, "the network thread sleeps while a worker leads"
    assert len(handled) == 103


def test_a_worker_keeps_the_deadline_of_a_retry_while_it_leads(kafka: KafkaCluster, topic: str) -> None:
    """No record arrives, and no heartbeat is due: a lost deadline would be found with a Fetch response after 500 ms."""
    deliveries = Deliveries(failures=10)
    rare = {"group.protocol": "classic", "heartbeat.interval.ms": 15_000, "session.timeout.ms": 45_000}
    with running(app_with(kafka, topic, deliveries, workers=1, tuning=rare | {"auto.commit.interval.ms": 60_000})):
        deliveries.wait(1)
    # The median, because a busy machine delays this process, too.
    assert 0.05 < median(after - before for before, after in pairwise(deliveries.attempts)) < 0.35


def test_a_stop_ends_the_lead_of_a_worker(kafka: KafkaCluster, topic: str) -> None:
    deliveries = Deliveries()
    app = app_with(kafka, topic, deliveries)
    with leading(app) as worker:
        deliveries.wait(1)
        begun = time.monotonic()
        app.stop()
        assert time.monotonic() - begun < 10.0
        assert not worker.is_alive()
    assert kafka.admin.lag(topic, [topic]) == 0


def test_a_worker_that_leads_is_scaled_away_and_another_one_leads(kafka: KafkaCluster, topic: str) -> None:
    deliveries = Deliveries()
    app = app_with(kafka, topic, deliveries, workers=4)
    with running(app), make(kafka.bootstrap_servers) as producer:
        for count in range(1, 30):
            deliveries.wait(count)
            leading_worker()
            app.scale(1 if count % 2 else 4)
            producer.produce_sync(topic, b"%d" % count, partition=0, timeout=30.0)
        deliveries.wait(30)
    assert deliveries.values[1:] == [b"%d" % count for count in range(1, 30)]


def test_connections_that_end_under_a_leading_worker_are_made_again(
    broker: KafkaCluster, proxy: FrameProxy, topic: str
) -> None:
    deliveries = Deliveries()
    app = make_app(broker, topic)
    app.consumer(topic)(deliveries.handle)
    with leading(app), make(broker.bootstrap_servers) as producer:
        for count in range(10):
            producer.produce_sync(topic, b"%d" % count, partition=0, timeout=30.0)
            deliveries.wait(count + 1)
            leading_worker()
            proxy.cut_all()
    assert deliveries.values == [b"%d" % count for count in range(10)]


def test_a_fork_beside_a_leading_worker(kafka: KafkaCluster, topic: str) -> None:
    """The child has no workers and refuses the App's producer; the parent's worker leads on."""
    deliveries = Deliveries()
    app = app_with(kafka, topic, deliveries)
    with leading(app) as worker:
        deliveries.wait(1)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                app.producer.produce_sync(topic, b"child", timeout=1.0)
            except grete.GreteError:
                status = 0
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert worker.is_alive()
        app.producer.produce_sync(topic, b"parent", timeout=30.0)
        deliveries.wait(2)
    assert deliveries.values[1:] == [b"parent"]


class Interruption(BaseException):
    """Raised in a worker by another thread."""


def test_an_exception_in_a_worker_that_leads_ends_the_app_and_loses_no_record(kafka: KafkaCluster, topic: str) -> None:
    """The exception arrives as the worker takes the next job: the App ends with it, and the job is not committed."""
    deliveries = Deliveries()
    app = app_with(kafka, topic, deliveries, workers=1)
    app.start()
    deliveries.wait(1)
    worker = leading_worker()
    eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 30.0, "the first record is committed")
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker.ident or 0), ctypes.py_object(Interruption))
    fill(kafka.bootstrap_servers, topic, 1)
    eventually(lambda: app.error is not None, 30.0, "the App ends")
    with pytest.raises(grete.GreteError, match="Interruption"):
        app.stop()
    assert len(deliveries.values) == 1
    again = make_app(kafka, topic)
    again.consumer(topic)(deliveries.handle)
    with running(again):
        until_done(kafka, again, topic)
    assert len(deliveries.values) == 2


STOPPED = """
import json, sys, threading
import grete
servers, topic, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
app = grete.App(topic, kafka={"bootstrap.servers": servers}, workers=2)
read, ends = [], threading.Event()

@app.consumer(topic)
def handle(message: grete.Message):
    read.append(int(message.value))
    if len(read) == 1:
        print("ready", flush=True)
    if read[-1] == count - 1:
        ends.set()

app.start()
ends.wait(80.0)
app.stop()
print(json.dumps(read), flush=True)
"""


def test_stops_of_the_process_at_any_time_lose_nothing(kafka: KafkaCluster, topic: str) -> None:
    """SIGSTOP at 40 moments of an App that gets a record each millisecond: its worker leads, steps, or runs Python."""
    count = 4000
    kafka.create_topic(topic)
    command = [sys.executable, "-c", STOPPED, kafka.bootstrap_servers, topic, str(count)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        stopped = threading.Event()

        def produce() -> None:
            with make(kafka.bootstrap_servers) as producer:
                for number in range(count - 1):
                    producer.produce_sync(topic, b"%d" % number, partition=0, timeout=30.0)
                    # A rate at which the worker sleeps between two records.
                    threading.Event().wait(0.001)
                stopped.wait(60.0)
                producer.produce_sync(topic, b"%d" % (count - 1), partition=0, timeout=30.0)

        sender = threading.Thread(target=produce)
        sender.start()
        assert process.stdout.readline() == "ready\n"
        stop_at_many_moments(process)
        stopped.set()
        sender.join(60.0)
        read = json.loads(process.communicate(timeout=90.0)[0])
    assert read == list(range(count))
    assert process.returncode == 0


def test_an_app_with_two_groups_leaves_the_sockets_to_the_network_threads(kafka: KafkaCluster, topic: str) -> None:
    """A worker that led one client's loop would read the other one's responses no sooner."""
    deliveries = Deliveries()
    app = app_with(kafka, topic, deliveries)
    app.consumer(topic, group=f"{topic}-other")(deliveries.handle)
    with running(app):
        deliveries.wait(2)
        workers = [thread for thread in threading.enumerate() if thread.name.startswith("grete-worker")]
        assert workers
        eventually(lambda: all(is_parked(worker.native_id) for worker in workers), 30.0, "no worker leads")
