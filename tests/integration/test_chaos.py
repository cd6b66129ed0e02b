"""Brokers and members come, hang, die and return in a random order, for as long as `SOAK_SECONDS` says."""

from __future__ import annotations

import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.conftest import StartRecorder
from tests.integration.continuous_producer import SteadyProducer
from tests.integration.recorder_check import Ledger
from tests.kafka import KafkaCluster, eventually, new_cluster
from tests.kafka.waiting import Deadline

pytestmark = [pytest.mark.kafka, pytest.mark.soak]
PARTITIONS = 12


class Chaos:
    """The moves. At most one broker is away at a time, so that producers can go on with two replicas."""

    def __init__(self, kafka: KafkaCluster, seed: int, start: Callable[[], AppRun]) -> None:
        self.random = random.Random(seed)
        self.done: list[str] = []
        self._kafka = kafka
        self._start = start
        self._away: int | None = None
        self._hung: int | None = None
        self.members: list[AppRun] = [start(), start()]
        self.killed: set[int] = set()

    def move(self) -> None:
        moves = [self.kill_broker, self.stop_broker, self.hang_broker, self.join, self.leave, self.kill_member]
        move = self.random.choice(moves)
        self.done.append(move.__name__)
        move()

    def kill_broker(self) -> None:
        self._return_broker()
        self._away = self.random.choice(list(self._kafka.nodes))
        self._kafka.kill(self._away, signal.SIGKILL)

    def stop_broker(self) -> None:
        self._return_broker()
        self._away = self.random.choice(list(self._kafka.nodes))
        self._kafka.stop(self._away)

    def hang_broker(self) -> None:
        self._return_broker()
        self._hung = self.random.choice(list(self._kafka.nodes))
        self._kafka.kill(self._hung, signal.SIGSTOP)

    def join(self) -> None:
        if len(self.members) < 4:
            self.members.append(self._start())

    def leave(self) -> None:
        if len(self.members) > 1:
            member = self.members.pop(self.random.randrange(len(self.members)))
            assert member.stop(seconds=60.0) == 0, member.output

    def kill_member(self) -> None:
        if len(self.members) > 1:
            member = self.members.pop(self.random.randrange(len(self.members)))
            member.process.kill()
            self.killed.add(member.pid)

    def calm(self) -> None:
        """All brokers are back."""
        self._return_broker()

    def _return_broker(self) -> None:
        if self._hung is not None:
            self._kafka.kill(self._hung, signal.SIGCONT)
            self._hung = None
        if self._away is not None:
            self._kafka.start(self._away)
            self._away = None
        for name in ("orders", *self._kafka.internal_topics):
            eventually(partial(self._in_sync, name), 120.0, f"all replicas of {name}")

    def _in_sync(self, topic: str) -> bool:
        return self._kafka.admin.in_sync(topic) == 3


def has_seen(directory: Path, count: int) -> bool:
    return Ledger(directory).count >= count


@pytest.mark.timeout(3600)
def test_nothing_is_lost_in_chaos(tmp_path: Path, start_recorder: StartRecorder) -> None:
    seed = int(os.environ.get("SOAK_SEED", time.time_ns() % 1_000_000))
    length = Deadline(float(os.environ.get("SOAK_SECONDS", "300")))
    print(f"SOAK_SEED={seed}")
    with new_cluster(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=PARTITIONS)

        def start() -> AppRun:
            return start_recorder(kafka, "orders", "billing", session_ms=6000, work=0.002, commit_ms=500)

        with SteadyProducer(kafka.bootstrap_servers, "orders", PARTITIONS, 2000) as load:
            chaos = Chaos(kafka, seed, start)
            eventually(lambda: Ledger(tmp_path).count > 0, 60.0, "first records")
            while not length.over:
                chaos.move()
                # Something must get through between two moves, or nothing would be tested but outages.
                goal = Ledger(tmp_path).count + 3000
                chaos.members[0].until(partial(has_seen, tmp_path, goal), 120.0, f"{goal} records; {chaos.done}")
            chaos.calm()
            ends = load.finish(120.0)
        eventually(lambda: kafka.admin.lag("billing", ["orders"]) == 0, 120.0, lambda: f"no lag; {chaos.done}")
        for member in chaos.members:
            assert member.stop(seconds=60.0) == 0, member.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_checksums(PARTITIONS, 100)
    print(f"{ledger.count} records for {sum(ends.values())}, moves: {chaos.done}")
