"""`grete swarm`: it starts, works, shows itself, quiets and stops; nodes that die or hang are replaced."""

from __future__ import annotations

import json
import os
import re
import signal
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from tests.integration.recorder_check import Ledger
from tests.integration.swarm_process import SwarmRun, start_worker
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.ports import ReservedPort
from tests.kafka.processes import stands_still

pytestmark = pytest.mark.kafka
PARTITIONS = 6
# Members that come back find their place at once.
STATIC = {"group.instance.id": "swarm-{hostname}", "session.timeout.ms": 20_000}


@pytest.fixture
def filled(kafka: KafkaCluster, topic: str) -> str:
    """A topic of 3,000 records in six partitions."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    fill(kafka.bootstrap_servers, topic, 3000, partitions=PARTITIONS)
    return topic


def until_idle(kafka: KafkaCluster, topic: str) -> None:
    eventually(lambda: kafka.admin.lag(topic, [topic]) == 0, 60.0, "everything is processed and committed")


def partitions(row: dict[str, Any]) -> int:
    """How many a node has, of all its groups."""
    return sum(group["partitions"] for group in row["groups"])


def assert_gone(run: SwarmRun) -> None:
    """Nothing of it runs any more, and nothing lies about."""
    eventually(lambda: not run.relatives(), 5.0, lambda: f"{run.relatives()} are left")
    assert not run.control.exists()


def test_starts_works_and_stops(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    with start_worker(kafka, filled, tmp_path, nodes=2) as run:
        pids = run.until_ready()
        run.until(lambda: all(partitions(row) == 3 for row in run.rows().values()), 30.0, "half of the work for each")
        fill(kafka.bootstrap_servers, filled, 600, partitions=PARTITIONS)
        until_idle(kafka, filled)
        (preload,) = run.notes("preload")
        assert preload["pid"] == run.pid, "once, in the supervisor"
        lanes = run.notes("initialize")
        assert {row["pid"] for row in lanes} == set(pids.values()), "all nodes work"
        assert all(row["warm"] == run.pid for row in lanes), "what was made before the fork is there"
        assert all(pids[row["node"]] == row["pid"] for row in lanes), "App.node"
        assert all(os.getpgid(pid) == pid for pid in pids.values()), "a terminal's Ctrl-C does not reach the nodes"
        shown = run.grete("ps", "--control", str(run.control), "--json")
        assert [row["pid"] for row in json.loads(shown)["nodes"]] == list(pids.values())
        assert str(pids[0]) in run.grete("ps", "--control", str(run.control))
        assert oct(run.control.stat().st_mode & 0o777) == "0o600"
        assert run.stop() == 0, run.output
        for name in ("supervisor", "node-0", "node-1"):
            assert name in run.output, "log lines say whose they are"
        assert "Traceback" not in run.output
        assert_gone(run)
    assert kafka.admin.members(filled) == {}, "the group was left"
    assert kafka.admin.lag(filled, [filled]) == 0
    Ledger(tmp_path).assert_exactly_once_in_order(dict.fromkeys(range(PARTITIONS), 3600 // PARTITIONS))


def test_a_stop_in_the_middle_commits_what_was_done(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    with start_worker(kafka, filled, tmp_path, kafka_settings={"auto.commit.interval.ms": 3_600_000}) as run:
        run.until(lambda: len(run.notes("batch")) >= 10, 60.0, "some work")
        assert run.stop(signal.SIGINT) == 0, run.output
    ledger = Ledger(tmp_path)
    done = {(filled, batch.partition): batch.runs[-1][1] + 1 for batch in ledger.batches}
    assert kafka.admin.committed(filled) == done
    assert kafka.admin.members(filled) == {}


def test_dump_and_quiet(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    with start_worker(kafka, filled, tmp_path) as run:
        run.until_ready()
        until_idle(kafka, filled)
        os.kill(run.pid, signal.SIGTTIN)
        threads = [f"{name}: Current thread 0x" for name in ("supervisor", "node-0", "node-1")]
        run.until(lambda: all(thread in run.output for thread in threads), 10.0, "the stacks of all")
        assert re.search(r"^supervisor: .*loop\.py", run.output, re.MULTILINE), "each line says whose it is"
        assert re.search(r"^node-1: .*worker\.py", run.output, re.MULTILINE)

        os.kill(run.pid, signal.SIGTSTP)
        run.until(lambda: all(row["quiet"] for row in run.rows().values()), 10.0, "all nodes are quiet")
        assert run.status()["quiet"]
        fill(kafka.bootstrap_servers, filled, 60, partitions=PARTITIONS)
        died = run.pids()[0]
        os.kill(died, signal.SIGKILL)
        run.until_named("swarm.node.died", node=0)
        members = eventually(lambda: kafka.admin.members(filled), 10.0, "they stay in the group")
        assert len(members) <= 2
        assert run.stop() == 1, "a node died, and nothing made up for it"
        assert Ledger(tmp_path).count == 3000, "nothing that came after the quiet was begun"
        assert len(run.named("swarm.node.started")) == 2, "no node is started into the quiet"
        assert_gone(run)


def test_nodes_that_do_not_end_are_ended(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    """One hangs, one is deaf, one is stopped: the other commits, and the swarm says that force was needed."""
    with start_worker(kafka, filled, tmp_path, nodes=4, app={"shutdown_timeout": "2s"}) as run:
        pids = run.until_ready()
        run.harm(0, "hang")
        run.harm(1, "deaf")
        fill(kafka.bootstrap_servers, filled, 600, partitions=PARTITIONS)
        run.until(lambda: len(run.notes("harm")) == 2, 30.0, "two nodes are harmed")
        stop(pids[2])
        began = time.monotonic()
        assert run.stop() == 2, run.output
        took = time.monotonic() - began
        assert took < 10.0, took
        assert "forced stop" in run.output, "the last words of the one that hung"
        (killed,) = run.named("swarm.node.died", node=1)
        assert killed["status"] == -signal.SIGKILL
        assert_gone(run)
    committed = kafka.admin.committed(filled)
    for batch in Ledger(tmp_path).batches:
        if batch.pid == pids[3]:
            assert committed[filled, batch.partition] >= batch.runs[-1][1] + 1, "what the others did is committed"


def test_a_second_ctrl_c_waits_for_no_handler(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    with start_worker(kafka, filled, tmp_path, app={"shutdown_timeout": "100s"}) as run:
        run.until_ready()
        run.harm(0, "hang")
        fill(kafka.bootstrap_servers, filled, 600, partitions=PARTITIONS)
        run.until_event_of_any("harm")
        os.kill(run.pid, signal.SIGINT)
        run.until_named("swarm.stopping")
        assert run.stop(signal.SIGINT, seconds=20.0) == 2, run.output
        assert_gone(run)
    assert kafka.admin.members(filled) == {}, "there is still time for leaving the group"


def test_dead_nodes_are_replaced_without_pidfds(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    """With them: see `test_swarm_faults`."""
    port = ReservedPort()
    probes = f"127.0.0.1:{port.number}"
    # The App's own: where the nodes listened, too, all but one process would end.
    with start_worker(
        kafka, filled, tmp_path, kafka_settings=STATIC, GRETE_PROBES=probes, GRETE_SWARM_PIDFD="no"
    ) as run:
        pids = run.until_ready()
        assert not any("pidfd" in kind for kind in run.descriptors())
        at_first = run.descriptors_at_rest(listeners=2)
        assert [probe(probes, path) for path in ("livez", "readyz", "other")] == [200, 200, 404]
        run.harm(1, "exit")
        fill(kafka.bootstrap_servers, filled, 600, partitions=PARTITIONS)
        run.until_named("swarm.node.died")
        os.kill(pids[0], signal.SIGKILL)
        run.until_replaced(1, pids[1])
        run.until_replaced(0, pids[0])
        assert {row["node"]: row["status"] for row in run.named("swarm.node.died")} == {1: 7, 0: -signal.SIGKILL}
        assert {row["restarts"] for row in run.rows().values()} == {1}
        for pid in run.until_ready().values():
            os.kill(pid, signal.SIGKILL)
        run.until(lambda: len(run.named("swarm.node.died")) == 4, 10.0, "both died")
        run.until_ready()
        eventually(lambda: probe(probes, "readyz") == 200, 10.0, "ready again")
        assert run.descriptors_at_rest(listeners=2) == at_first
        until_idle(kafka, filled)
        assert run.stop() == 0, run.output
        assert_gone(run)
    port.release()
    Ledger(tmp_path).assert_everything(dict.fromkeys(range(PARTITIONS), 600))


def test_a_swarm_that_can_only_crash_gives_up(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    swarm = {"ready_after": "30s", "crash_loop_after": 3}
    with start_worker(kafka, filled, tmp_path, app={"swarm": swarm}, SWARM_CRASH="yes") as run:
        assert run.wait(60.0) == 1, run.output
        loops = run.named("swarm.crash_loop")
        assert {row["node"] for row in loops} == {0, 1}
        assert len(loops) == 2, "said once for each node"
        assert_gone(run)


def test_no_node_outlives_its_supervisor(kafka: KafkaCluster, filled: str, tmp_path: Path) -> None:
    """Not even one that is stopped, or that holds its GIL forever."""
    with start_worker(kafka, filled, tmp_path, nodes=3) as run:
        pids = run.until_ready()
        run.harm(0, "gil")
        fill(kafka.bootstrap_servers, filled, 600, partitions=PARTITIONS)
        run.until_event_of_any("harm")
        stop(pids[1])
        run.process.kill()
        began = time.monotonic()
        eventually(lambda: not run.relatives(), 5.0, "all nodes are gone", first_wait=0.002, longest_wait=0.01)
        print(f"\nall nodes gone after {(time.monotonic() - began) * 1e3:.0f} ms")
        # The socket of a supervisor that was killed stays; the next one takes its place.
        run.wait(5.0)
        with start_worker(kafka, filled, tmp_path) as second:
            second.until_ready()
            assert second.stop() == 0, second.output


def stop(pid: int) -> None:
    """SIGSTOP, and wait until it has come."""
    os.kill(pid, signal.SIGSTOP)
    eventually(lambda: stands_still(pid), 10.0, f"{pid} stands still")


def probe(address: str, path: str) -> int:
    """HTTP status; 0: no process listens."""
    try:
        with urllib.request.urlopen(f"http://{address}/{path}", timeout=10.0) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return 0
