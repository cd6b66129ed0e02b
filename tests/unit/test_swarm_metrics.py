"""The metrics of a swarm: what nodes post, and what becomes of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from grete import _native
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.policy import exit_status
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.status import metrics
from tests.unit.exposition import CATALOGUE, Exposition, line
from tests.unit.fake_swarm import ready_node, status

LIVE = b"grete_live 1\n"


def in_a_child(check: Callable[[], bool]) -> bool:
    """What it says in a forked child."""
    child = os.fork()
    if child == 0:
        said = False
        try:
            said = check()
        finally:
            os._exit(0 if said else 1)
    return os.waitpid(child, 0)[1] == 0


def scrape(*nodes: NodeState, boards: MetricsSegments | None = None) -> Exposition:
    exposed = Exposition(metrics.render(status(*nodes), boards or MetricsSegments()))
    exposed.check(["node"])
    return exposed


def posted(*texts: bytes) -> MetricsSegments:
    boards = MetricsSegments()
    for number, text in enumerate(texts):
        boards.create(number)
        board = boards.get(number)
        assert board is not None
        assert board.publish(text)
    return boards


def test_a_node_posts_and_the_supervisor_reads() -> None:
    board = _native.SharedText()
    assert board.read() is None
    assert in_a_child(lambda: board.publish(b"grete_live 1\n") and board.publish(b"grete_live 0\n"))
    read = board.read()
    assert read is not None
    text, age, cut = read
    assert (text, cut) == (b"grete_live 0\n", False)
    assert 0 <= age < 60


def test_a_node_has_its_own_board_and_no_other() -> None:
    boards = posted(LIVE, LIVE)
    first, second = boards.get(0), boards.get(1)
    assert first is not None
    assert second is not None
    boards.keep(0)

    def a_later_node() -> bool:
        # What it cannot reach it leaves alone, also when it lets go of it.
        blind = first.read() is None and not first.publish(b"forged") and second.read() is not None
        boards.remove(0)
        boards.keep(1)
        own_child = in_a_child(lambda: second.read() is None and not second.publish(b"forged"))
        return blind and own_child and second.publish(b"grete_live 0\n")

    assert in_a_child(a_later_node)
    assert (first.read() or ())[:1] == (LIVE,)
    assert (second.read() or ())[:1] == (b"grete_live 0\n",)


def test_a_successor_begins_with_nothing() -> None:
    boards = posted(LIVE)
    before = boards.get(0)
    boards.create(0)
    after = boards.get(0)
    assert after is not None
    assert after is not before
    assert after.read() is None
    boards.remove(0)
    boards.remove(0)
    assert boards.get(0) is None


def test_what_all_nodes_say_is_one_text() -> None:
    lag = {"handler": "f", "topic": "orders", "partition": "3"}
    text = line("grete_lag_records", lag, 7) + line("grete_live", {}, 1)
    one = scrape(ready_node(0), ready_node(1), boards=posted(text.encode(), LIVE))
    assert one.of("grete_live") == {(("node", "0"),): 1, (("node", "1"),): 1}
    assert one.one("grete_lag_records", node="0", topic="orders", partition="3") == 7
    assert one.of("grete_swarm_metrics_complete") == {(("node", "0"),): 1, (("node", "1"),): 1}


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"\xff\xfe",
        b"grete_live 1\n" * 3 + b"<html>",
        b'grete_live{node="1"} 0\n',
        b"grete_swarm_supervisor_memory_bytes 1\n",
        b"# TYPE grete_live counter\n# HELP grete_live\n# EOF\n",
        b'grete_jobs_total{handler="\\"} 1\n',
        pytest.param(os.urandom(10_000), id="random"),
    ],
)
def test_a_mad_node_spoils_nothing(text: bytes) -> None:
    one = scrape(ready_node(0), ready_node(1), boards=posted(LIVE, text))
    assert one.of("grete_live") == {(("node", "0"),): 1}
    assert one.one("grete_swarm_metrics_complete", node="0") == 1


def test_a_text_that_is_too_long_is_posted_as_far_as_it_fits() -> None:
    many = "".join(line("grete_jobs_total", {"handler": f"h{number}"}, number) for number in range(20_000))
    text = f"# HELP grete_live x\ngrete_live 1\n# HELP grete_jobs_total x\n{many}"
    assert len(text) > 512 << 10
    one = scrape(ready_node(0), boards=posted(text.encode()))
    assert one.one("grete_live", node="0") == 1
    assert not one.of("grete_jobs_total")
    assert one.one("grete_swarm_metrics_complete", node="0") == 0


def test_dead_nodes_have_no_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = posted(LIVE)
    gone = ready_node(0)
    gone.phase, gone.pid, gone.forked_at = Phase.BACKOFF, None, None
    one = scrape(gone, boards=boards)
    assert not one.of("grete_live")
    assert not one.of("grete_swarm_node_uptime_seconds")
    assert not one.of("grete_swarm_report_age_seconds")
    assert one.one("grete_swarm_metrics_complete", node="0") == 0
    assert one.one("grete_swarm_nodes", state="backoff") == 1
    # One that is stopped goes on to have a process, and its board.
    assert scrape(ready_node(0), boards=boards).of("grete_live")
    # But no news.
    monkeypatch.setattr(metrics, "MAX_AGE", 0.0)
    assert not scrape(ready_node(0), boards=boards).of("grete_live")


def test_the_supervisors_own() -> None:
    first, second = ready_node(0), ready_node(1)
    first.restarts, first.deaths_by_reason = 3, Counter({"memory": 1, "SIGSEGV": 1, "SIGUSR1": 1})
    second.phase = Phase.STARTING
    second.last_report = second.last_report_at = None
    one = scrape(first, second)
    states = {dict(labels)["state"]: count for labels, count in one.of("grete_swarm_nodes").items()}
    assert states == {str(phase): phase in (Phase.READY, Phase.STARTING) for phase in Phase}
    assert one.one("grete_swarm_restarts_total", node="0") == 3
    deaths = {dict(labels)["reason"]: count for labels, count in one.of("grete_swarm_exits_total", node="0").items()}
    assert deaths == {**dict.fromkeys(exit_status.EXIT_REASONS, 0), "memory": 1, "SIGSEGV": 1, "SIGUSR1": 1}
    assert len(one.of("grete_swarm_exits_total", node="1")) == len(exit_status.EXIT_REASONS)
    assert one.one("grete_swarm_node_uptime_seconds", node="1") == 10
    assert one.of("grete_swarm_report_age_seconds") == {(("node", "0"),): 0.5}
    assert one.one("grete_swarm_supervisor_memory_bytes") > 1 << 20
    assert {name for name in CATALOGUE if name.startswith("grete_swarm_")} == one.families


@pytest.mark.parametrize(
    "own", [("grete_nothing", [], 1.0), ("grete_swarm_restarts_total", [], 1.0), ("grete_live", ["1"], 1.0)]
)
def test_what_is_not_in_the_catalogue_is_refused(own: Any) -> None:
    with pytest.raises(ValueError, match="no metric grete_"):
        _native.aggregate_metrics([], [own], 5.0)


def test_deaths_are_counted_by_why() -> None:
    manager = Manager(1, Limits(backoff_first=0.01, backoff_cap=0.01))
    node = manager.nodes[0]
    manager.start(1.0)
    now = 1.0
    for way, ends in (("leaks", -15), ("alone", -11), ("alone", 1), ("restart", 0), ("stop", 0)):
        manager.on_deadline(now := now + 1.0)
        assert node.phase is Phase.FORKING
        manager.take_actions()
        manager.on_forked(now, 0, 100)
        if way == "leaks":
            manager.on_invalid_report(now, 0, "x")
        elif way == "restart":
            manager.restart(now)
            manager.on_deadline(now)
        elif way == "stop":
            manager.stop(now)
        manager.on_exited(now, 0, ends)
    assert node.deaths_by_reason == {"pipe": 1, "SIGSEGV": 1, "exit": 1, "restart": 1, "stop": 1}
    assert node.deaths_by_reason.total() == node.deaths == 5
