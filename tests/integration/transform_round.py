"""One round: an App transforms all records of a topic while brokers and processes fail as planned."""

from __future__ import annotations

import json
import os
import resource
import signal
import threading
import time
from contextlib import ExitStack
from pathlib import Path

from tests.integration.app_process import AppRun
from tests.integration.transform_app import LARGE_SIZE, fill_source
from tests.integration.transform_check import TransformJudge
from tests.integration.transform_plan import DELIVERY_MS, Plan
from tests.kafka import KafkaCluster, eventually

TARGET = "tests.integration.apps.transformer:app"
PARTITIONS = 4
PATIENCE = 90.0
# How long deliveries have to fail: until some have been given up.
OUTAGE = DELIVERY_MS / 1e3 + 1.0


class Round:
    """`run` it once. pace: seconds that one process takes at least for all records."""

    def __init__(self, kafka: KafkaCluster, plan: Plan, directory: Path, count: int, pace: float) -> None:
        self.kafka = kafka
        self.plan = plan
        self.directory = directory
        self.count = count
        name = f"transform-{plan.seed}-{time.monotonic_ns() % 1_000_000}"
        self.group, self.source, self.target = name, f"{name}.in", f"{name}.out"
        self._nodes = len(kafka.nodes)
        self._spec = plan.spec(self.group, self.source, self.target, kafka.bootstrap_servers, int(count / pace))
        self._apps: list[AppRun] = []
        self._stack = ExitStack()
        self._seconds = 0.0
        kafka.create_topic(self.source, partitions=PARTITIONS)
        kafka.create_topic(self.target, partitions=PARTITIONS)
        fill_source(kafka.bootstrap_servers, self.source, count, PARTITIONS)
        self.judge = TransformJudge(kafka, self.group, self.source, self.target, count, plan.keeps_order)

    def run(self) -> None:
        """AssertionError: a committed record has no output, or the App does not get on."""
        started = time.monotonic()
        try:
            with self._stack:
                self._start()
                for fault, at in zip(self.plan.faults, self.plan.at, strict=True):
                    self._until_written(int(at * self.count), f"before {fault}")
                    getattr(self, fault)()
                    self.judge.look(f"after {fault}")
                if self.plan.ends_with_fresh_app:
                    self._stop_all()
                    self.judge.look("without any App")
                    self._start()
                self._until(lambda: self.kafka.admin.lag(self.group, [self.source]) == 0, "all is committed")
                for app in self._apps:
                    status = app.stop(seconds=30.0)
                    assert status == 0, f"the last stop ended with {status}: {app.output[-8000:]}"
            self.judge.assert_all()
            if self.plan.keeps_order and not self.undelivered:
                assert self.judge.falls == 0, f"{self.judge.falls} outputs came first behind a later one's"
        finally:
            self._seconds = time.monotonic() - started

    def restore(self) -> None:
        """All brokers are back, and the topics are gone."""
        for node in self.kafka.nodes:
            self.kafka.kill(node, signal.SIGCONT)
        self.kafka.start_all()
        self._in_sync()
        for topic in (self.source, self.target):
            self.kafka.admin.delete_topic(topic)

    @property
    def undelivered(self) -> int:
        """Outputs that were not delivered, as the Apps have noted: gaps that retries have filled later."""
        rows = [json.loads(line) for path in self.directory.glob("*.jsonl") for line in path.read_text().splitlines()]
        return sum(row["records"] for row in rows if row["event"] == "undelivered")

    @property
    def summary(self) -> str:
        """One line."""
        plan, judge = self.plan, self.judge
        faults = ", ".join(f"{fault} at {at:.0%}" for fault, at in zip(plan.faults, plan.at, strict=True))
        order = f", {judge.falls} out of order" if plan.keeps_order else ""
        return (
            f"seed {plan.seed}: {plan.variant}; {faults}; {self.count} records, {self.undelivered} undelivered at "
            f"first, {judge.duplicates} duplicates{order}; {self._seconds:.1f} s"
        )

    # Faults of brokers

    def hang_broker(self) -> None:
        """Silent for longer than `delivery.timeout.ms`."""
        node = self._node()
        self.kafka.kill(node, signal.SIGSTOP)
        _let_pass(OUTAGE)
        self.kafka.kill(node, signal.SIGCONT)
        self._in_sync()

    def kill_broker(self) -> None:
        """SIGKILL, and a start on the same data."""
        node = self._node()
        self.kafka.kill(node, signal.SIGKILL)
        self.kafka.start(node)
        self._in_sync()

    def fill_disk(self) -> None:
        """No file of the broker may grow any more; it ends itself. Then there is room again."""
        node = self._node()
        process = self.kafka.nodes[node].process
        assert process is not None
        _, hard = resource.prlimit(process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(process.pid, resource.RLIMIT_FSIZE, (1, hard))
        self._until(lambda: process.poll() is not None, "the broker without room has ended")
        _let_pass(0.0 if self._nodes == 1 else OUTAGE)
        self.kafka.start(node)
        self._in_sync()

    def refuse_large(self) -> None:
        """The output topic refuses every seventh record."""
        self.kafka.admin.alter_topic(self.target, {"max.message.bytes": LARGE_SIZE})
        _let_pass(1.0)
        self.judge.look("while large records are refused")
        self.kafka.admin.alter_topic(self.target, {"max.message.bytes": None})

    def refuse_all(self) -> None:
        """The output topic refuses every record, as too old: nothing is written, offsets may be."""
        self.kafka.admin.alter_topic(self.target, {"message.timestamp.before.max.ms": 0})
        _let_pass(1.0)
        self.judge.look("while all records are refused")
        self.kafka.admin.alter_topic(self.target, {"message.timestamp.before.max.ms": None})

    def stop_app_beside_hung_broker(self) -> None:
        """SIGTERM while the broker is silent: the stop cannot deliver everything."""
        node = self._node()
        self.kafka.kill(node, signal.SIGSTOP)
        _let_pass(0.5)
        self._take_app().stop(seconds=30.0)
        self.kafka.kill(node, signal.SIGCONT)
        self._in_sync()
        self.judge.look("after a stop beside a hung broker")
        self._start()

    # Faults of Apps

    def stop_app(self) -> None:
        """SIGTERM, and another start."""
        self._take_app().stop(seconds=30.0)
        self.judge.look("after a stop")
        self._start()

    def kill_app(self) -> None:
        """SIGKILL, and another start."""
        app = self._take_app()
        app.process.kill()
        app.wait(10.0)
        self.judge.look("after a kill")
        self._start()

    def hang_app(self) -> None:
        """SIGSTOP for longer than its session; another one takes its partitions over."""
        hung = self._take_app()
        os.kill(hung.pid, signal.SIGSTOP)
        before = self.judge.written
        self._start()
        self._until_written(min(self.count, before + self.count // 20), "another App has taken over")
        self.judge.look("while an App hangs")
        os.kill(hung.pid, signal.SIGCONT)
        self._apps.append(hung)

    def join_and_leave(self) -> None:
        """Partitions go to a second process, and come back."""
        self._start()
        self._until(lambda: len(self.kafka.admin.members(self.group)) >= 2, "a second member")
        self.judge.look("after a join")
        self._take_app().stop(seconds=30.0)

    # What they share

    def _node(self) -> int:
        """The one broker; of several, the leader of an output partition, the group's coordinator, or any."""
        if self.plan.random.random() < 0.3:
            return self.kafka.admin.coordinator(self.group)
        if self.plan.random.random() < 0.3:
            return self.plan.random.choice(list(self.kafka.nodes))
        return self.kafka.admin.leaders(self.target)[self.plan.random.randrange(PARTITIONS)]

    def _in_sync(self) -> None:
        for topic in (self.source, self.target, *self.kafka.internal_topics):
            eventually(lambda topic=topic: self.kafka.admin.in_sync(topic) == self._nodes, PATIENCE, f"all of {topic}")  # type: ignore[misc]

    def _start(self) -> None:
        environment = {"TRANSFORMER": json.dumps(self._spec)}
        app = self._stack.enter_context(AppRun(TARGET, self.directory, environment))
        self._apps.append(app)
        app.until_event("running", PATIENCE)

    def _take_app(self) -> AppRun:
        return self._apps.pop(self.plan.random.randrange(len(self._apps)))

    def _stop_all(self) -> None:
        while self._apps:
            self._take_app().stop(seconds=30.0)

    def _until_written(self, count: int, what: str) -> None:
        self._until(lambda: self.judge.written >= count, f"{what}: {count} outputs")

    def _until(self, condition: object, what: str) -> None:
        assert callable(condition)
        self._apps[0].until(condition, PATIENCE, f"{what}; {self.plan}")


def _let_pass(seconds: float) -> None:
    """The length of a fault is the fault itself: there is no condition to wait for."""
    threading.Event().wait(seconds)
