"""`grete ps` and `grete info --swarm`, over real sockets."""

from __future__ import annotations

import json
import os
import re
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from grete._cli import main
from grete._cli.reports import memory_report
from grete._cli.swarms import ps
from grete._cli.terminal.table import format_duration, format_size
from grete._swarm.control import client, socket_path
from grete._swarm.control import server as control_server
from grete._swarm.control.server import ControlServer
from grete._swarm.node.report import FailedPartition, LaneCounts, MissingTopic
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.status import memory
from grete._swarm.status.memory import Memory
from grete._swarm.status.snapshot import Status, SupervisorInfo, snapshot
from tests.unit.fake_swarm import FakeManager, drive, overdue, ready_node, report

MIB = 1 << 20
HEADINGS = re.split(
    " {2,}", "NODE  PID  STATE  LANES  LAG  OLDEST JOB  GIL WAIT  RSS  PSS  RESTARTS  LAST DEATH  UPTIME"
)
BUSY = ["4 (3 idle, 1 running)", "1200", "Orders.consume orders[3] 12.5s"]


def call(*arguments: str) -> Result:
    return CliRunner().invoke(main, arguments)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Only swarms of the test are found, and all processes are of the same size."""
    monkeypatch.setattr(socket_path, "directories", lambda environment, uid: [tmp_path])

    def measured(pid: int) -> Memory:
        return {"rss": 100 * MIB, "pss": 30 * MIB, "shared": 80 * MIB, "private": 20 * MIB, "missing": None}

    monkeypatch.setattr(memory, "read_memory", measured)
    return tmp_path


Runner = Callable[..., ControlServer]


@pytest.fixture
def runs(home: Path) -> Iterator[Runner]:
    """Swarms that answer, each with these nodes."""
    threads, servers, stop = [], [], threading.Event()

    def start(app: str, *nodes: NodeState, **flags: Any) -> ControlServer:
        def status(memory: bool) -> Status:
            about = SupervisorInfo(app, 40.0, None, ("127.0.0.1:8080",) if app == "shop" else ())
            return snapshot(about, FakeManager(nodes, **flags), 100.0)

        opened = control_server.open_server(str(home / f"{app}.sock"), app, status, {})
        assert opened is not None
        servers.append(opened)
        threads.append(threading.Thread(target=drive, args=(opened, stop.is_set, 60)))
        threads[-1].start()
        return opened

    yield start
    stop.set()
    for thread in threads:
        thread.join()
    for server in servers:
        server.close()


def stopping(number: int) -> NodeState:
    node = ready_node(number, overdue=(overdue(),))
    node.phase, node.stop_reason, node.restarts, node.kill_at = Phase.STOPPING, "handler", 2, 110.0
    node.last_death = "killed by SIGSEGV"
    return node


def dead(number: int) -> NodeState:
    return NodeState(number, Phase.BACKOFF, since=98.0, next_at=103.5, deaths=1, last_death="exit 1", last_report=None)


def test_a_table_for_each_swarm(runs: Runner) -> None:
    runs("alpha", ready_node(0, lanes=LaneCounts(0, 0, 0, 0, 0, 0), oldest=None, lag=None), rolling=True)
    runs("shop", ready_node(0), stopping(1), dead(2), quieted=True)
    result = call("ps")
    assert result.exit_code == 0, result.output
    pid = os.getpid()
    lines = result.output.splitlines()
    assert [re.split(r" {2,}", line.strip()) for line in lines] == [
        [f"alpha: supervisor {pid}, up 1m00s, restarting one node after the other, RSS 100 MiB, PSS 30 MiB"],
        HEADINGS,
        ["0", str(pid), "ready", "0", "-", "-", "4ms", "100 MiB", "30 MiB", "0", "-", "10.0s"],
        [""],
        [f"shop: supervisor {pid}, up 1m00s, quiet, RSS 100 MiB, PSS 30 MiB, probes at 127.0.0.1:8080"],
        HEADINGS,
        ["0", str(pid), "ready", *BUSY, "4ms", "100 MiB", "30 MiB", "0", "-", "10.0s"],
        ["1", str(pid), "stopping (handler)", *BUSY, "4ms", "100 MiB", "30 MiB", "2", "killed by SIGSEGV", "10.0s"],
        ["2", "-", "backoff, starts in 3.5s", *["-"] * 6, "0", "exit 1", "-"],
        ["! node 1: Orders.consume has run for 312.5 s on orders[3], and its handler_timeout is 300 s"],
    ]
    assert len({len(line) for line in lines[5:9]}) == 1, "the last column ends in one place"


def test_a_partition_that_cannot_be_read_has_a_line(runs: Runner) -> None:
    unread = FailedPartition("Orders.consume", "orders", 3, "no_offset", "it has none", 7.0)
    runs("shop", ready_node(0, lanes=LaneCounts(1, 0, 0, 0, 1, 0), lag=None, failed=(unread,)))
    lines = call("ps").output.splitlines()
    assert "2 (1 idle, 1 failed)" in lines[2]
    assert lines[3] == "! node 0: orders[3] cannot be read for 7.0 s (no_offset): it has none"


def test_json_is_one_status_a_line(runs: Runner) -> None:
    runs("alpha", ready_node(0))
    runs("shop", ready_node(0), ready_node(1))
    rows = [json.loads(line) for line in call("ps", "--json").output.splitlines()]
    assert [(row["app"], len(row["nodes"])) for row in rows] == [("alpha", 1), ("shop", 2)]
    assert rows[1]["nodes"][0]["memory"]["pss"] == 30 * MIB


def test_one_of_several(runs: Runner) -> None:
    runs("alpha", ready_node(0))
    server = runs("shop", ready_node(0), ready_node(1))
    assert json.loads(call("ps", "shop", "--json").output)["app"] == "shop"
    assert json.loads(call("ps", "--control", server.path, "--json").output)["app"] == "shop"
    result = call("ps", "shoop")
    assert result.exit_code == 1
    assert 'no swarm of an App "shoop" answers; did you mean "shop"?' in result.output
    assert "there are: alpha, shop" in call("ps", "zzz").output


def test_none_is_said_with_where_it_looked(home: Path) -> None:
    result = call("ps")
    assert result.exit_code == 1
    assert result.output == (
        f"Error: no swarm of this user runs with its control socket in {home}; if it has another, name it with "
        "--control\n"
    )


def test_what_a_killed_one_left_counts_only_when_it_is_asked_for(home: Path) -> None:
    path = home / "old.sock"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))
    assert "no swarm of this user runs" in call("ps").output
    result = call("ps", "--control", str(path))
    assert result.exit_code == 1
    assert f"no swarm answers at {path}: no process listens there any more" in result.output
    assert f"no swarm answers at {home}/none: there is no such socket" in call("ps", "--control", f"{home}/none").output


def test_who_does_not_answer_is_named_and_the_others_are_shown(
    runs: Runner, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(client.fetch_statuses, "__defaults__", (0.3,))
    runs("shop", ready_node(0))
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "silent.sock"))
        silent.listen(5)
        result = call("ps", "--json")
    assert result.exit_code == 1
    assert '"app": "shop"' in result.output
    assert f"does not answer within 0.3 s: process {os.getpid()} at {home}/silent.sock" in result.output


def test_another_version_is_refused_with_the_cure(runs: Runner, monkeypatch: pytest.MonkeyPatch) -> None:
    runs("shop", ready_node(0))
    monkeypatch.setattr(client, "VERSION", 2)
    assert "use the grete command that it was started with" in call("ps").output


def test_what_a_node_waits_for_and_what_it_misses_is_said_below(runs: Runner) -> None:
    node = replace(ready_node(1), phase=Phase.NOT_READY)
    missing = report(missing=(MissingTopic("orders.dlq", 'topic "orders.dlq" does not exist'),))
    runs(
        "shop",
        replace(ready_node(0), last_report=missing),
        node,
        waiting={1: 'group "shop" is joining: for 45 s at most'},
    )
    lines = call("ps").output.splitlines()
    assert lines[-2:] == [
        '! node 0: topic "orders.dlq" does not exist',
        '! node 1 is not_ready: group "shop" is joining: for 45 s at most',
    ]


def test_text_of_a_node_moves_no_cursor(runs: Runner) -> None:
    node = dead(0)
    node.last_death = "\x1b[2J\x07"
    runs("shop", node)
    assert "\x1b" not in call("ps").output
    assert "\\x1b[2J\\x07" in call("ps").output


def test_sharing_is_described_in_plain_words(runs: Runner) -> None:
    runs("shop", ready_node(0), ready_node(1), dead(2))
    pid = os.getpid()
    result = call("info", "--swarm", "shop")
    assert result.exit_code == 0
    lines = result.output.splitlines()
    assert lines[0] == "shop:"
    assert lines[1].split() == ["PROCESS", "PID", "RSS", "PSS", "SHARED", "PRIVATE"]
    assert lines[2].split() == ["supervisor", str(pid), *["100", "MiB", "30", "MiB", "80", "MiB", "20", "MiB"]]
    assert len(lines) == 6
    assert lines[5] == (
        "2 nodes and the supervisor take 90 MiB together (the sum of PSS), where 2 processes that share nothing would "
        "take about 200 MiB: 0.90 x one process instead of 2 x, 55% less."
    )
    found = json.loads(call("info", "--swarm", "--json").output)
    assert (found["pss"], found["unshared_total"], len(found["processes"])) == (90 * MIB, 200 * MIB, 3)


def taken(rss: int, pss: int | None, missing: str | None = None) -> Memory:
    return {"rss": rss * MIB, "pss": None if pss is None else pss * MIB, "shared": 0, "private": 0, "missing": missing}


@pytest.mark.parametrize(
    ("nodes", "says"),
    [
        ([], "No node runs just now."),
        ([taken(100, None, "no smaps_rollup"), taken(100, None, "no smaps_rollup")], "is unknown"),
        (
            [taken(30, 29)],
            "The node and the supervisor take 39 MiB together (the sum of PSS), where one process alone",
        ),
        ([taken(30, 29)], "so nothing is saved: load what is large before the fork"),
    ],
)
def test_what_sharing_comes_to(nodes: list[Memory], says: str) -> None:
    processes: list[Any] = [{"node": None, "pid": 1, "memory": taken(20, 10)}]
    processes += [{"node": number, "pid": 2 + number, "memory": one} for number, one in enumerate(nodes)]
    known = [process["memory"]["pss"] for process in processes]
    shared: memory_report.MemoryReport = {
        "app": "shop",
        "processes": processes,
        "pss": None if None in known else sum(one for one in known if one is not None),
        "unshared_total": sum(one["rss"] or 0 for one in nodes),
    }
    lines = [str(part) for part in memory_report.render(shared)]
    assert says in lines[-1]
    assert sum(line.startswith("! ") for line in lines) == (1 if "unknown" in says else 0), "each reason once"


def test_quantities() -> None:
    assert [format_size(count) for count in (None, 0, 1023 << 10, 1 << 20, 9999 << 20, 20 << 30)] == [
        None,
        "0 KiB",
        "1023 KiB",
        "1 MiB",
        "9,999 MiB",
        "20.0 GiB",
    ]
    shown = [
        format_duration(seconds)
        for seconds in (None, 0, 0.004, 0.9996, 59.94, 59.96, 192.4, 3599.6, 7500, 86400 * 3 + 14400)
    ]
    assert shown == [None, "0ms", "4ms", "1.0s", "59.9s", "1m00s", "3m12s", "1h00m", "2h05m", "3d04h"]


def test_states_before_the_first_report_are_rows_too() -> None:
    node = NodeState(0, Phase.STARTING, since=99.0, pid=7, forked_at=99.0)
    status = snapshot(SupervisorInfo("shop", 40.0), FakeManager([node]), 100.0)
    shown = "\n".join(map(str, ps.render(status))).splitlines()
    assert shown[2].split() == ["0", "7", "starting", *["-"] * 6, "0", "-", "1.0s"]
