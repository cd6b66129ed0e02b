"""`/metrics` of a whole supervisor, whatever becomes of its nodes."""

from __future__ import annotations

import json
import os
import signal
import socket
import time
from pathlib import Path

from tests.kafka.waiting import eventually
from tests.swarm.supervisor_run import SupervisorRun
from tests.unit.exposition import Exposition


def complete(exposed: Exposition) -> list[float]:
    return [exposed.one("grete_swarm_metrics_complete", node=node) for node in ("0", "1")]


def until_complete(run: SupervisorRun) -> Exposition:
    eventually(lambda: complete(run.metrics()) == [1, 1], 20, lambda: f"both have posted: {complete(run.metrics())}")
    return run.metrics()


def shared_memory(pid: int) -> int:
    """Boards that a process can reach."""
    return Path(f"/proc/{pid}/maps").read_text().count("rw-s")


def test_a_scrape_while_nodes_post_all_the_time(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post") as run:
        run.until_ready()
        before = until_complete(run)
        for _ in range(100):
            now = run.metrics()
            assert complete(now) == [1, 1]
            for node in ("0", "1"):
                jobs = now.of("grete_jobs_total", node=node)
                (number,) = set(jobs.values())
                assert len(jobs) == number % 40 + 1, "all of it is of one time"
                assert number >= max(before.of("grete_jobs_total", node=node).values())
            before = now
        assert run.stop() == 0


def test_nodes_reach_no_other_board(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post") as run:
        first, second = run.until_ready()
        own = shared_memory(run.pid) - 2
        assert [shared_memory(first) - own, shared_memory(second) - own] == [1, 1]
        os.kill(first, signal.SIGKILL)
        eventually(lambda: run.status()["nodes"][0]["restarts"] == 1, 20, "it is replaced")
        first, second = run.until_ready()
        assert [shared_memory(pid) - own for pid in (run.pid, first, second)] == [2, 1, 1]
        assert run.stop() == 0


def test_scrapes_while_nodes_die_and_come_back(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post", crash_loop_after=1000) as run:
        run.until_ready()
        until_complete(run)
        boards = shared_memory(run.pid)
        for number in range(1, 21):
            victim = run.status()["nodes"][number % 2]
            if victim["pid"] is not None:
                os.kill(victim["pid"], signal.SIGKILL)
            # Whatever moment this is, the metrics are whole, and of one life.
            for node in ("0", "1"):
                jobs = run.metrics().of("grete_jobs_total", node=node)
                assert len(set(jobs.values())) <= 1
            eventually(lambda: run.status()["nodes"][number % 2]["pid"] not in (None, victim["pid"]), 20, "a successor")  # noqa: B023
        last = until_complete(run)
        assert shared_memory(run.pid) == boards, "those of the dead are gone"
        restarts = sum(last.of("grete_swarm_restarts_total").values())
        assert restarts == sum(last.of("grete_swarm_exits_total", reason="SIGKILL").values()) == 20
        assert run.stop() == 0


def test_without_probes_no_node_posts(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post", probes="none") as run:
        run.until(2, up=..., board=False)
        assert run.stop() == 0


def test_killed_nodes_are_reported_as_gone_and_counted(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post", restart_backoff="3s") as run:
        first, _ = run.until_ready()
        until_complete(run)
        os.kill(first, signal.SIGKILL)
        eventually(lambda: run.status()["nodes"][0]["pid"] is None, 20, "it is dead")
        gone = run.metrics()
        assert gone.one("grete_swarm_nodes", state="backoff") == 1
        assert complete(gone) == [0, 1]
        assert not gone.of("grete_live", node="0")
        assert gone.one("grete_swarm_exits_total", node="0", reason="SIGKILL") == 1
        assert gone.one("grete_swarm_restarts_total", node="0") == 0
        back = until_complete(run)
        assert back.one("grete_swarm_restarts_total", node="0") == 1
        assert back.one("grete_swarm_exits_total", node="0", reason="SIGKILL") == 1
        assert run.stop() == 0


def test_a_stopped_node_delays_no_request(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post", report_timeout="60s") as run:
        first, _ = run.until_ready()
        until_complete(run)
        os.kill(first, signal.SIGSTOP)
        slowest = 0.0

        def old() -> bool:
            nonlocal slowest
            began = time.monotonic()
            now = run.metrics()
            slowest = max(slowest, time.monotonic() - began)
            return complete(now) == [0, 1] and now.one("grete_swarm_report_age_seconds", node="0") > 2

        eventually(old, 30, "what it said last is no news any more")
        assert slowest < 5, "each is answered from memory"
        now = run.metrics()
        assert not now.of("grete_jobs_total", node="0")
        assert now.one("grete_swarm_nodes", state="ready") == 2
        os.kill(first, signal.SIGCONT)
        until_complete(run)
        assert run.stop() == 0


def test_what_mad_nodes_say_is_left_out(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "deface") as run:
        run.until_ready()
        now = run.metrics()
        assert complete(now) == [0, 0]
        assert now.families == {name for name in now.families if name.startswith("grete_swarm_")}
        assert run.stop() == 0


def test_a_client_that_does_not_read_does_no_harm(tmp_path: Path) -> None:
    with SupervisorRun(tmp_path, "post") as run:
        run.until_ready()
        (at,) = run.until(event="swarm.probes")["addresses"]
        host, _, port = at.rpartition(":")
        lazy = [socket.create_connection((host, int(port)), timeout=10) for _ in range(20)]
        for one in lazy:
            one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n")
        assert run.metrics().one("grete_swarm_nodes", state="ready") == 2
        for one in lazy:
            one.close()
        assert json.loads(run.get("/readyz")[1])["ok"]
        assert run.stop() == 0
