"""Forks while a producer and a group's member are at work: `storm SERVERS TOPIC CHILDREN_TOPIC GROUP FORKS SEED`.

The parent produces numbered records as fast as it can (`OrderedLoad`) and consumes the same topic. Each child tries
what it has inherited, and then does what its kind says. Says what happened, in JSON.
"""

from __future__ import annotations

import faulthandler
import gc
import json
import os
import random
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NoReturn

import grete
from tests.integration.ordered_load import OrderedLoad

PARTITIONS = 4
# Seconds for a child, which prints its stacks a little earlier.
PATIENCE = 30.0
AT_ONCE = 3
KINDS = ("tries", "produces", "exits", "drops", "killed", "leaves")


@dataclass
class Inherited:
    """What the parent has, and a child must not use."""

    producer: grete.client.Producer
    consumer: grete.client.Consumer
    admin: grete.client.Admin
    done: grete.client.Delivery
    open: grete.client.Delivery
    many: grete.client.Deliveries
    topic: str

    def calls(self) -> dict[str, Callable[[], object]]:
        return {
            "produce": lambda: self.producer.produce(self.topic, b"x"),
            "produce_sync": lambda: self.producer.produce_sync(self.topic, b"x", timeout=5.0),
            "produce_many": lambda: self.producer.produce_many(self.topic, [b"x"]),
            "flush": lambda: self.producer.flush(5.0),
            "poll": lambda: self.producer.poll(0),
            "partitions": lambda: self.producer.partitions(self.topic, 5.0),
            "delivery.wait": lambda: self.open.wait(5.0),
            "deliveries.wait": lambda: self.many.wait(5.0),
            "consumer.poll": lambda: self.consumer.poll(timeout=5.0),
            "admin.topics": lambda: self.admin.topics(),
        }


class Child:
    """One fork, seen from the parent."""

    def __init__(self, number: int, kind: str, pid: int, answer: int) -> None:
        self.number = number
        self.kind = kind
        self.pid = pid
        self.pidfd = os.pidfd_open(pid)
        self.answer = answer
        self.deadline = time.monotonic() + PATIENCE

    def reap(self) -> dict[str, Any]:
        """After its end, or its time: how it ended, and what it said."""
        late = time.monotonic() > self.deadline
        if late:
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        os.close(self.pidfd)
        with os.fdopen(self.answer) as pipe:
            text = pipe.read()
        said = json.loads(text) if text else {}
        return {"number": self.number, "kind": self.kind, "status": status, "late": late, **said}


def spare(inherited: Inherited) -> dict[str, str]:
    """What the inherited handles say to a child."""
    said: dict[str, str] = {}
    for name, call in inherited.calls().items():
        try:
            said[name] = f"no error: {call()!r}"
        except grete.ForkedClientError:
            continue
        except BaseException as error:
            said[name] = repr(error)
    return said


def own(servers: str, topic: str, number: int) -> list[str]:
    """A producer of the child's own, and what it has written."""
    values = [f"{number}-{index}" for index in range(5)]
    with grete.client.Producer({"bootstrap.servers": servers}) as producer:
        for value in values[:3]:
            producer.produce_sync(topic, value.encode(), timeout=20.0)
        producer.produce_many(topic, [value.encode() for value in values[3:]]).wait(20.0)
    return values


def be_a_child(kind: str, number: int, pipe: int, servers: str, children: str, held: list[Inherited]) -> NoReturn:
    faulthandler.dump_traceback_later(PATIENCE - 5.0, exit=True)
    answer: dict[str, Any] = {}
    if kind in ("tries", "produces"):
        answer["wrong"] = spare(held[0])
    if kind in ("produces", "drops"):
        answer["wrote"] = own(servers, children, number)
    if kind == "drops":
        held.clear()
        gc.collect()
    os.write(pipe, json.dumps(answer).encode())
    os.close(pipe)
    if kind == "killed":
        while True:
            signal.pause()
    if kind == "leaves":
        # As a script that ends: atexit, the garbage of the interpreter, all of it.
        faulthandler.cancel_dump_traceback_later()
        sys.exit(0)
    os._exit(0)


def storm(forks: int, seed: int, servers: str, children: str, held: list[Inherited]) -> list[dict[str, Any]]:
    """All the children, some at a time."""
    source = random.Random(seed)
    ended: list[dict[str, Any]] = []
    alive: list[Child] = []
    started = 0
    while started < forks or alive:
        while started < forks and len(alive) < AT_ONCE:
            kind = KINDS[started % len(KINDS)]
            reader, writer = os.pipe()
            pid = os.fork()
            if pid == 0:
                os.close(reader)
                be_a_child(kind, started, writer, servers, children, held)
            os.close(writer)
            alive.append(Child(started, kind, pid, reader))
            started += 1
            if kind == "killed" and source.random() < 0.5:
                # Anywhere in its short life; the others of its kind are killed when they rest.
                signal.pidfd_send_signal(alive[-1].pidfd, signal.SIGKILL)
        poll = select.poll()
        for child in alive:
            poll.register(child.pidfd, select.POLLIN)
            if child.kind == "killed":
                poll.register(child.answer, select.POLLIN | select.POLLHUP)
        first = min(child.deadline for child in alive)
        ready = {fd for fd, _ in poll.poll(max(0.0, first - time.monotonic()) * 1000 + 1)}
        for child in alive[:]:
            if child.kind == "killed" and child.answer in ready and child.pidfd not in ready:
                signal.pidfd_send_signal(child.pidfd, signal.SIGKILL)
            elif child.pidfd in ready or time.monotonic() > child.deadline:
                alive.remove(child)
                ended.append(child.reap())
    return ended


class Member(threading.Thread):
    """The parent's member of the group: counts what it reads."""

    def __init__(self, consumer: grete.client.Consumer) -> None:
        super().__init__(name="member")
        self.count = 0
        self.stop = threading.Event()
        self._consumer = consumer

    def run(self) -> None:
        while not self.stop.is_set():
            self.count += len(self._consumer.poll(timeout=0.2))


class Gauge(threading.Thread):
    """How the load goes on: the longest time without any progress."""

    def __init__(self, load: OrderedLoad) -> None:
        super().__init__(name="gauge")
        self.longest = 0.0
        self.stop = threading.Event()
        self._load = load

    def run(self) -> None:
        seen, since = self._load.outcomes.total(), time.monotonic()
        while not self.stop.wait(0.02):
            now = time.monotonic()
            self.longest = max(self.longest, now - since)
            if self._load.outcomes.total() != seen:
                seen, since = self._load.outcomes.total(), now


def main() -> None:
    servers, topic, children, group, forks, seed = sys.argv[1:]
    settings = {"bootstrap.servers": servers}
    producer = grete.client.Producer({**settings, "buffer.memory": 4 << 20}, max_block="60s")
    consumer = grete.client.Consumer({**settings, "group.id": group, "auto.offset.reset": "earliest"})
    consumer.subscribe([topic])
    admin = grete.client.Admin(settings)
    member = Member(consumer)
    member.start()
    # In no `with`: a child that ends in order would come by, and find locks that threads held which it has not got.
    load = OrderedLoad(producer, topic, PARTITIONS, chunk=100)
    load.start()
    load.allow(PARTITIONS * 100)
    load.wait_settled(PARTITIONS * 100, 30.0)
    idle = f"{topic}-idle"
    held = [
        Inherited(
            producer,
            consumer,
            admin,
            producer.produce_sync(idle, b"done", timeout=30.0),
            producer.produce(idle, b"open"),
            producer.produce_many(idle, [b"open"]),
            topic,
        )
    ]
    load.allow(1 << 40)
    before, at = load.outcomes.total(), time.monotonic()
    load.wait_settled(before + 20_000, 30.0)
    calm = (load.outcomes.total() - before) / (time.monotonic() - at)
    gauge = Gauge(load)
    gauge.start()
    before, at = load.outcomes.total(), time.monotonic()
    ended = storm(int(forks), int(seed), servers, children, held)
    took = time.monotonic() - at
    stormy = (load.outcomes.total() - before) / took
    gauge.stop.set()
    gauge.join()
    load.allow(0)
    total = load.finish(60.0)
    members = len(admin.describe_group(group).members)
    member.stop.set()
    member.join()
    consumer.close()
    report = producer.close(30.0)
    answer = {
        "total": total,
        "outcomes": load.outcomes,
        "errors": load.errors[:5],
        "undelivered": report.count,
        "calm": calm,
        "stormy": stormy,
        "took": took,
        "longest": gauge.longest,
        "members": members,
        "consumed": member.count,
        "children": ended,
    }
    print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
