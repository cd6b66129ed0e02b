"""What a swarm is to its group: static members keep their place, rolling restarts keep the work going, pins hold."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

import pytest

from tests.integration.continuous_producer import SteadyProducer
from tests.integration.recorder_check import Ledger
from tests.integration.swarm_process import SwarmRun, start_worker
from tests.kafka import KafkaCluster, eventually, fill

pytestmark = pytest.mark.kafka
PARTITIONS = 6
STATIC: dict[str, object] = {"group.instance.id": "swarm-{hostname}", "session.timeout.ms": 20_000}


def generations(run: SwarmRun) -> dict[int, int]:
    """{node: generation of its group} of nodes that report one."""
    return {node: row["groups"][0]["generation"] for node, row in run.rows().items() if row["groups"]}


def test_a_static_member_comes_back_without_a_rebalance(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    with (
        start_worker(kafka, topic, tmp_path, nodes=3, kafka_settings=STATIC) as run,
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, per_second=300) as producer,
    ):
        pids = until_shared(run)
        before = generations(run)
        logged = len(kafka.rebalance_lines(topic))
        places = lanes(run)
        killed = time.monotonic_ns()
        for sig in (signal.SIGKILL, signal.SIGTERM):
            gone, pids[1] = pids[1], 0
            os.kill(gone, sig)
            pids[1] = run.until_replaced(1, gone)
            run.until(lambda: run.notes("batch", pid=pids[1]), 30.0, "the new one works")
        producer.finish()
        ends = kafka.admin.end_offsets(topic)
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        assert generations(run) == before, "no rebalance"
        assert not kafka.rebalance_lines(topic)[logged:], "as the broker says, too"
        now = lanes(run)
        assert [now[pids[0]], now[pids[2]]] == [places[pids[0]], places[pids[2]]], "the others keep what they have"
        assert sorted(now[pids[1]] + now[pids[0]] + now[pids[2]]) == list(range(PARTITIONS)), "it gets its own back"
        taken = [row for row in run.notes("revoked") if row["at"] > killed and row["pid"] in (pids[0], pids[2])]
        assert not taken, "nothing was taken from the others"
        assert run.stop() == 0, run.output
    Ledger(tmp_path).assert_everything(ends)


def test_a_swarm_is_static_by_itself_and_leaves_when_it_stops(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """No setting names an id. The session is so long that each wait for its end would fail this test."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    group = topic.split(maxsplit=1)[0]
    settings = {"session.timeout.ms": 120_000, "heartbeat.interval.ms": 500}
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
    with start_worker(kafka, topic, tmp_path / "first", nodes=3, kafka_settings=settings) as run:
        pids = until_shared(run)
        before = generations(run)
        (named,) = run.named("swarm.static")
        mine = {f"{named['instance']}-{node}" for node in range(3)}
        assert {row["groups"][0]["instance"] for row in run.rows().values()} == mine
        os.kill(pids[1], signal.SIGKILL)
        run.until_replaced(1, pids[1], 30.0)
        assert generations(run) == before, "no rebalance"
        os.kill(run.pid, signal.SIGHUP)
        run.until(lambda: run.named("swarm.restarted"), 30.0, "a rolling restart that waits for no session")
        assert generations(run) == before, "no rebalance"
        with start_worker(kafka, topic, tmp_path / "second", nodes=1, kafka_settings=settings) as other:
            other.until_ready(30.0)
            eventually(lambda: len(kafka.admin.members(group)) == 4, 30.0, "all are members")
            assert run.named("swarm.static") == [named]
            assert {row["groups"][0]["instance"] for row in other.rows().values()} == {f"{named['instance']}.2-0"}
            assert run.stop() == 0, run.output
            other.until(
                lambda: [row["groups"][0]["partitions"] for row in other.rows().values()] == [PARTITIONS],
                20.0,
                "the other one has all partitions at once",
            )
            assert other.stop() == 0, other.output
        assert kafka.admin.members(group) == {}
    assert "FENCED" not in run.output + other.output


def until_shared(run: SwarmRun) -> dict[int, int]:
    """Wait until the group has come to rest, and each node has its part; returns {node: pid}."""

    def shared() -> bool:
        groups = [group for row in run.rows().values() for group in row["groups"]]
        generations = {group["generation"] for group in groups}
        return (
            len(generations) == 1 and [group["partitions"] for group in groups] == [PARTITIONS // run.nodes] * run.nodes
        )

    run.until(shared, 60.0, "the partitions are shared out")
    return run.until_ready()


def lanes(run: SwarmRun) -> dict[int, list[int]]:
    """{pid: the partitions that it works on, or did when it died}."""
    found: dict[int, set[int]] = {}
    for row in sorted(run.notes("initialize") + run.notes("revoked"), key=lambda row: int(row["at"])):
        mine = found.setdefault(row["pid"], set())
        (mine.add if row["event"] == "initialize" else mine.discard)(row["partition"])
    return {pid: sorted(partitions) for pid, partitions in found.items()}


@pytest.mark.parametrize(
    ("nodes", "static"),
    [pytest.param(2, False, id="dynamic"), pytest.param(3, True, id="static", marks=pytest.mark.soak)],
)
def test_a_rolling_restart_keeps_the_work_going(
    kafka: KafkaCluster, topic: str, tmp_path: Path, nodes: int, static: bool
) -> None:
    kafka.create_topic(topic, partitions=PARTITIONS)
    settings = STATIC if static else {"session.timeout.ms": 6000}
    app = {"swarm": {"static_membership": static}}
    with (
        start_worker(kafka, topic, tmp_path, nodes=nodes, kafka_settings=settings, app=app) as run,
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, per_second=500) as producer,
    ):
        old = until_shared(run)
        run.until(lambda: len(run.notes("batch")) > 50, 30.0, "work")
        before = generations(run)
        began = time.monotonic_ns()
        os.kill(run.pid, signal.SIGHUP)
        fewest = run.nodes

        def renewed() -> bool:
            nonlocal fewest
            rows = run.rows()
            fewest = min(fewest, sum(row["pid"] is not None and row["state"] != "stopping" for row in rows.values()))
            return not run.status()["rolling"] and not set(old.values()) & set(run.pids().values())

        run.until(renewed, 90.0, "each node is another process")
        over = time.monotonic_ns()
        run.until_ready()
        after = generations(run)
        assert fewest >= run.nodes - 1, "one at a time"
        producer.finish()
        ends = kafka.admin.end_offsets(topic)
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        died = run.named("swarm.node.died")
        assert [row["node"] for row in sorted(died, key=lambda row: int(row["at"]))] == list(range(nodes))
        assert run.stop() == 0, run.output
        assert "Traceback" not in run.output
    ledger = Ledger(tmp_path)
    ledger.assert_everything(ends)
    ledger.assert_one_owner_at_a_time()
    if static:
        assert after == before, "a static member that comes back in time makes no rebalance"
    done = [batch.end for batch in ledger.batches if began <= batch.end <= over]
    gaps = [(later - earlier) / 1e9 for earlier, later in zip([began, *done], [*done, over], strict=True)]
    print(
        f"\nrolling restart of {nodes} nodes: {(over - began) / 1e9:.1f} s, longest pause of all work {max(gaps):.2f} s"
    )
    # Seconds in which nothing was done are what users would see. Partitions that wait for a session's end would take 6.
    assert max(gaps) < 5.0
    again = sum(count - 1 for seen in ledger.times_seen().values() for count in seen.values())
    assert again == 0, "a graceful end has nothing done twice"


@pytest.mark.soak
@pytest.mark.parametrize("static", [False, True], ids=["dynamic", "static"])
def test_nodes_die_during_rolling_restarts(kafka: KafkaCluster, topic: str, tmp_path: Path, static: bool) -> None:
    """Another restart is requested meanwhile: all nodes are replaced in the end, and nothing is lost."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    rng = random.Random(5)
    with (
        start_worker(
            kafka,
            topic,
            tmp_path,
            nodes=3,
            kafka_settings=STATIC if static else None,
            app={"swarm": {"static_membership": static}},
        ) as run,
        SteadyProducer(kafka.bootstrap_servers, topic, PARTITIONS, per_second=500) as producer,
    ):
        for _ in range(8):
            old = run.until_ready()
            died = len(run.named("swarm.node.died"))
            os.kill(run.pid, signal.SIGHUP)
            wanted = died + rng.randint(1, 2)
            run.until(lambda wanted=wanted: len(run.named("swarm.node.died")) >= wanted, 60.0, "it is under way")  # type: ignore[misc]
            os.kill(rng.choice(list(run.pids().values())), rng.choice([signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM]))
            if rng.random() < 0.5:
                os.kill(run.pid, signal.SIGHUP)
            run.until(lambda: not run.status()["rolling"], 120.0, "it is over")
            assert not set(old.values()) & set(run.pids().values()), "all were replaced"
        assert not run.named("swarm.restart_failed")
        run.until_ready()
        producer.finish()
        ends = kafka.admin.end_offsets(topic)
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        assert run.stop() == 0, run.output
    Ledger(tmp_path).assert_everything(ends)


def test_pins(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """Topics by node: the first in node 0, the second in node 1."""
    topics = [f"{topic}-a", f"{topic}-b"]
    for name in topics:
        kafka.create_topic(name, partitions=2)
        fill(kafka.bootstrap_servers, name, 200, partitions=2)
    with start_worker(kafka, " ".join(topics), tmp_path, app={"nodes": {0: topics[:1], 1: topics[1:]}}) as run:
        run.until_ready()
        eventually(lambda: kafka.admin.lag(topics[0], topics) == 0, 60.0, "all is committed")
        assert {(row["topic"], row["node"]) for row in run.notes("initialize")} == {(topics[0], 0), (topics[1], 1)}
        assert run.stop() == 0, run.output


def test_partitions_without_a_group(kafka: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """Partitions by node, by assignment: no node joins a group, and offsets are committed all the same."""
    kafka.create_topic(topic, partitions=4)
    fill(kafka.bootstrap_servers, topic, 400, partitions=4)
    with start_worker(kafka, topic, tmp_path, route={"partitions": {0: [0, 3], 1: [1, 2]}}) as run:
        run.until_ready()
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        owners = {(row["partition"], row["node"]) for row in run.notes("initialize")}
        assert owners == {(0, 0), (3, 0), (1, 1), (2, 1)}
        assert kafka.admin.members(topic) == {}
        pid = run.pids()[0]
        os.kill(pid, signal.SIGKILL)
        run.until_replaced(0, pid)
        fill(kafka.bootstrap_servers, topic, 400, partitions=4)
        eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "all is committed")
        assert run.stop() == 0, run.output
    Ledger(tmp_path).assert_everything(dict.fromkeys(range(4), 200))
