"""Four processes on three brokers, of which all fail again and again: each input is in the output once, in order.

EOS_SECONDS: time of the faults; EOS_RECORDS: input of that time; EOS_SEED: seed of the first run; EOS_RUNS: number of
runs; EOS_PAUSE: seconds between two harms to processes; EOS_CONCURRENCY: plans with this concurrency only. Give pytest
`-o faulthandler_timeout=2000`: a run is longer than what the tests may take elsewhere; with several runs
`-o tmp_path_retention_count=100 --basetemp` keeps the logs of the processes.
"""

from __future__ import annotations

import json
import os
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.integration.app_process import AppRun
from tests.integration.broker_moves import BLOWS, BrokerMoves
from tests.integration.commands import grete
from tests.integration.exactly_once import repeats
from tests.integration.exactly_once.chaos import PARTITIONS, PROCESSES, TARGET, ChaosPlan, Load, Processes
from tests.integration.exactly_once.reading import committed_messages
from tests.integration.transform_check import TransformJudge
from tests.kafka import Deadline, KafkaCluster, eventually, java, new_cluster
from tests.kafka.apache import ApacheCluster

pytestmark = [pytest.mark.kafka, pytest.mark.soak, pytest.mark.apache("Kafka's coordinators and Java clients")]
SECONDS = float(os.environ.get("EOS_SECONDS", "300"))
RECORDS = int(os.environ.get("EOS_RECORDS", "300_000"))
FIRST_SEED = int(os.environ.get("EOS_SEED", time.time_ns() % 1_000_000))
RUNS = int(os.environ.get("EOS_RUNS", "1"))
PAUSE = float(os.environ.get("EOS_PAUSE", "1.0"))
CONCURRENCY = os.environ.get("EOS_CONCURRENCY", "")
# Time that the rest of the input may take when nothing fails any more.
CALM = 300.0


@pytest.fixture(scope="module")
def brokers() -> Iterator[KafkaCluster]:
    """Three brokers."""
    with new_cluster(nodes=3) as kafka:
        yield kafka


class CommittedJudge(TransformJudge):
    """Reads committed records, all of them each time."""

    def _read(self) -> None:
        for message in committed_messages(self._kafka, self._target, self._partitions, seconds=120.0):
            partition, value = message.partition(), message.value()
            assert isinstance(partition, int)
            assert isinstance(value, bytes)
            self._take(partition, value)


@pytest.mark.timeout(SECONDS + 1500)
@pytest.mark.parametrize("number", range(RUNS))
def test_each_record_once_whatever_fails(brokers: KafkaCluster, tmp_path: Path, number: int) -> None:
    plan = ChaosPlan.of(FIRST_SEED + number, CONCURRENCY)
    print(f"\n{plan}, Kafka {brokers.version}", flush=True)
    group = f"eos-{plan.seed}-{time.monotonic_ns() % 1_000_000}"
    source, target = f"{group}.in", f"{group}.out"
    for topic in (source, target):
        brokers.create_topic(topic, partitions=PARTITIONS)
    load = Load(brokers, source, RECORDS, SECONDS)
    processes = Processes(
        lambda slot: plan.spec(brokers, group, source, target, slot), tmp_path, plan.seed, pause=PAUSE
    )
    load.start()
    processes.start()
    blows = harm_brokers(brokers, plan.seed, [source, target], [load, processes])
    processes.finish()
    load.finish()
    behind = brokers.admin.lag(group, [source])
    print(
        f"{processes.harms}, brokers: {blows}; {load.written - behind} of {load.written} records are done", flush=True
    )
    finish_the_rest(brokers, plan, group, source, target, tmp_path)
    check_output(brokers, plan, group, source, target, load.written)
    check_transactions(brokers, group, target)


def harm_brokers(kafka: KafkaCluster, seed: int, topics: list[str], threads: list[Load | Processes]) -> dict[str, int]:
    """Kills, stops or hangs one broker after the other until the time is over; the leaders move back after each.

    All coordinators of a broker move with it. Returns the number of blows by kind.
    """
    source = random.Random(seed)
    moves = BrokerMoves(kafka, [*topics, "__consumer_offsets", "__transaction_state"])
    deadline, blows = Deadline(SECONDS), dict.fromkeys(BLOWS, 0)

    def check() -> bool:
        for thread in threads:
            thread.check()
        return True

    # Without the internal topics, nothing can be in sync.
    eventually(lambda: check() and kafka.admin.in_sync("__transaction_state") == 3, 60.0, "the first transaction")
    pause = threading.Event()
    try:
        while not deadline.over:
            kind = source.choice(BLOWS)
            blows[kind] += 1
            moves.blow(kind, source.randint(1, 3))
            pause.wait(source.uniform(1.0, 6.0))
            moves.undo()
            moves.move_leaders()
            pause.wait(min(source.uniform(1.0, 6.0), deadline.left))
            check()
    finally:
        moves.undo()
    return blows


def finish_the_rest(
    kafka: KafkaCluster, plan: ChaosPlan, group: str, source: str, target: str, directory: Path
) -> None:
    """Fresh processes transform what is left, and stop in order."""
    with ExitStack() as stack:
        apps = []
        for slot in range(PROCESSES):
            spec = {"TRANSFORMER": json.dumps(plan.spec(kafka, group, source, target, slot))}
            apps.append(stack.enter_context(AppRun(TARGET, directory / f"last-{slot}", spec)))
        for app in apps:
            app.until_event("running", 120.0)
        apps[0].until(lambda: kafka.admin.lag(group, [source]) == 0, CALM, "all is committed")
        for app in apps:
            status = app.stop(seconds=60.0)
            assert status == 0, f"the last stop ended with {status}: {app.output[-8000:]}"


def check_output(kafka: KafkaCluster, plan: ChaosPlan, group: str, source: str, target: str, count: int) -> None:
    """librdkafka and two consumers of Kafka's own read each record once, in order; the offsets are at the ends."""
    unit = plan.concurrency if plan.concurrency != "unordered" else ""
    judge = CommittedJudge(kafka, group, source, target, count, unit)
    judge.assert_all()
    assert isinstance(kafka, ApacheCluster)
    assert (judge.duplicates, judge.falls) == (0, 0), repeats.describe(kafka, target, PARTITIONS)
    rows = java.judge(kafka, target, "sequence", isolation_level="read_committed")
    assert sum(row["count"] for row in rows) == count
    for row in rows:
        wrong = {name: row[name] for name in ("strays", "twice", "missing") if row[name]}
        assert not wrong, row
        assert row["count"] == row["distinct"], row
        assert plan.concurrency != "partition" or row["falls"] == 0, row
    assert console_count(kafka, target) == count
    print(f"{count} records, {judge.written - count} records and markers beside them", flush=True)


def console_count(kafka: KafkaCluster, topic: str) -> int:
    """The number of committed records that Kafka's console consumer prints."""
    assert isinstance(kafka, ApacheCluster)
    classpath = f"{kafka.jars.classpath}:{java.tools(kafka.jars)}"
    line = ["java", "-Xmx256m", "-XX:TieredStopAtLevel=1", "-cp", classpath]
    line += ["org.apache.kafka.tools.consumer.ConsoleConsumer"]
    line += [
        "--bootstrap-server",
        kafka.bootstrap_servers,
        "--topic",
        topic,
        "--from-beginning",
        "--timeout-ms",
        "8000",
    ]
    line += [
        "--isolation-level",
        "read_committed",
        "--property",
        "print.offset=true",
        "--property",
        "print.value=false",
    ]
    # Newer tools write a line about the option, too.
    return sum(row.startswith(b"Offset:") for row in java.run(line, timeout=180).splitlines())


def check_transactions(kafka: KafkaCluster, group: str, target: str) -> None:
    """All transactions end, those of killed processes too, and there are as many ids as there were processes."""

    def listed() -> list[dict[str, str]]:
        rows = grete(kafka, "transactions", "list", "--json").rows
        return [row for row in rows if row["transactional_id"].startswith(group)]

    def ended() -> bool:
        return all(row["state"] in ("Empty", "CompleteCommit", "CompleteAbort") for row in listed())

    eventually(ended, 60.0, lambda: f"the end of all transactions: {listed()}")
    assert len(listed()) <= PROCESSES + 1, listed()
    found = grete(kafka, "transactions", "hanging", "--open-for", "0s", "--json")
    assert (found.status, found.rows) == (0, []), found
