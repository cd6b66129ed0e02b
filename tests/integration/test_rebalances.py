"""Members that come and go: nothing of an assignment is left behind in the process that stays."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.producers import producer
from tests.integration.topic_reader import consumer
from tests.kafka import KafkaCluster, eventually

pytestmark = pytest.mark.kafka
TARGET = "tests.integration.apps.memory_report:app"
PARTITIONS = 2
PAGE = os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Held:
    """What a process holds, as the kernel sees it."""

    threads: int
    descriptors: int
    memory: int

    @classmethod
    def by(cls, pid: int) -> Held:
        process = Path(f"/proc/{pid}")
        pages = int((process / "statm").read_text().split()[1])
        return cls(len(list(process.glob("task/*"))), len(list(process.glob("fd/*"))), pages * PAGE)


class Group:
    """An App that stays, members that come and go, and a load for all of its partitions."""

    def __init__(self, kafka: KafkaCluster, topic: str, group: str, directory: Path, leaks: bool) -> None:
        self.topics = [f"{topic}-{name}" for name in ("plain", "key", "async")]
        for name in self.topics:
            kafka.create_topic(name, partitions=PARTITIONS)
        self._kafka, self._group = kafka, group
        self._producer = producer(kafka.bootstrap_servers, linger_ms=0)
        settings = {"WATCHED_SERVERS": kafka.bootstrap_servers, "WATCHED_TOPICS": " ".join(self.topics)}
        self.app = AppRun(TARGET, directory, settings | {"WATCHED_GROUP": group, "WATCHED_LEAKS": "1" if leaks else ""})
        self.written = 0

    def write(self, value: bytes) -> None:
        """One more record in each partition of each topic, all of one key: so each partition has one instance."""
        rows = [
            self._producer.produce(topic, value, key=b"one", partition=partition)
            for topic in self.topics
            for partition in range(PARTITIONS)
        ]
        for row in rows:
            row.wait(30)
        self.written += 1

    def visit(self) -> None:
        """A member joins, gets partitions, and leaves: two rebalances, or more."""
        with consumer(
            self._kafka.bootstrap_servers, group_id=self._group, heartbeat_interval_ms=50, enable_auto_commit="false"
        ) as visitor:
            visitor.subscribe(self.topics)

            def assigned() -> bool:
                visitor.poll(timeout=0.05)
                return bool(visitor.assignment())

            eventually(assigned, 60.0, lambda: f"partitions for the visitor\n{self.app.output[-3000:]}")
            self.write(b"while a visitor is here")

    def reported(self) -> dict[str, int]:
        """The report of what is left when the App is alone and has seen all its partitions again."""
        lanes = len(self.topics) * PARTITIONS

        def whole() -> bool:
            shares = self._kafka.admin.members(self._group).values()
            return [len(share) for share in shares] == [lanes] and self._state() == "STABLE"

        self.app.until(whole, 60.0, "all partitions are back")
        self.write(b"hello")
        self.read()
        known = len(self._reports())
        self.write(b"report")
        self.app.until(lambda: len(self._reports()) == known + lanes, 60.0, "reports of all partitions")
        return self._reports()[-1]

    def read(self) -> None:
        """Wait until the App has read all."""
        self.app.until(lambda: self._kafka.admin.lag(self._group, self.topics) == 0, 60.0, "all is read")

    def _state(self) -> str:
        return self._kafka.admin.group_state(self._group)

    def _reports(self) -> list[dict[str, int]]:
        keys = ("lanes", "instances", "alive", "background", "workers")
        return [{key: row[key] for key in keys} for row in self.app.seen if row["event"] == "report"]

    def rebalances(self) -> int:
        """As the coordinator counts them."""
        return self._kafka.generations(self._group)[-1]

    def finish(self) -> None:
        """Nothing was lost, and the end is clean."""
        self.read()
        assert self.app.stop() == 0, self.app.output
        reads = [row for row in self.app.seen if row["event"] == "read"]
        seen = {(row["topic"], row["partition"], at) for row in reads for at in row["offsets"]}
        everything = {(t, p, at) for t in self.topics for p in range(PARTITIONS) for at in range(self.written)}
        assert seen == everything
        self._producer.close()


def come_and_go(kafka: KafkaCluster, topic: str, group: str, directory: Path, warm_up: int, wanted: int) -> int:
    """Visits until there were so many rebalances after the warm-up; returns by how many bytes the process has grown."""
    crowd = Group(kafka, topic, group, directory, leaks=False)
    with crowd.app:
        crowd.write(b"first")
        for _ in range(warm_up):
            crowd.visit()
        before, start = crowd.reported(), crowd.rebalances()
        held = Held.by(crowd.app.pid)
        while crowd.rebalances() - start < wanted:
            for _ in range(min(10, wanted)):
                crowd.visit()
        after, count = crowd.reported(), crowd.rebalances() - start
        lanes = len(crowd.topics) * PARTITIONS
        # One instance a partition; those in threads have one background thread each.
        assert after == before
        assert after == {
            "lanes": lanes, "instances": lanes, "alive": lanes, "background": 2 * PARTITIONS, "workers": 4
        }  # fmt: skip

        def settled() -> bool:
            now = Held.by(crowd.app.pid)
            return now.threads <= held.threads and now.descriptors <= held.descriptors

        eventually(
            settled, 30.0, lambda: f"as many threads and descriptors as before: {held}, {Held.by(crowd.app.pid)}"
        )
        now = Held.by(crowd.app.pid)
        grown = now.memory - held.memory
        print(
            f"{count} rebalances: threads {held.threads} -> {now.threads}, descriptors {held.descriptors} -> "
            f"{now.descriptors}, instances {after['alive']}, lanes {after['lanes']}, "
            f"memory {held.memory / 2**20:.1f} MB + {grown / 2**20:.2f} MB"
        )
        crowd.finish()
    return grown


def test_rebalances_leave_nothing_behind(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    come_and_go(kafka, topic, group, tmp_path, warm_up=3, wanted=40)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_thousand_rebalances_leave_nothing_behind(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    wanted = int(os.environ.get("SOAK_REBALANCES", "1000"))
    # A leaked instance, lane or buffer of each would be far more than this.
    assert come_and_go(kafka, topic, group, tmp_path, warm_up=30, wanted=wanted) < 4 << 20


def test_a_thread_that_is_left_behind_is_named(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    crowd = Group(kafka, topic, group, tmp_path, leaks=True)
    with crowd.app:
        crowd.write(b"first")
        crowd.read()
        crowd.visit()
        source = Path(__file__).parent / "apps" / "memory_report.py"
        line = next(at for at, text in enumerate(source.read_text().splitlines(), 1) if text.endswith("# leaks"))
        # While it runs, not at its end.
        named = f'thread "forgotten", started at {source}:{line} by initialize of Watched on'
        crowd.app.until(lambda: named in crowd.app.output, 30.0, "its name and line in the log")
        crowd.finish()
