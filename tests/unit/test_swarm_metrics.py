"""The metrics of a swarm: what nodes post, and what becomes of it."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from grete import _core
from grete.swarm import exits, metrics
from grete.swarm.boards import Boards
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.limits import Limits
from grete.swarm.manager import Manager
from tests.unit.exposed import CATALOGUE, Exposed, line
from tests.unit.swarms import status, steady

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


def told(*nodes: NodeFacts, boards: Boards | None = None) -> Exposed:
    exposed = Exposed(metrics.text(status(*nodes), boards or Boards()))
    exposed.check(["node"])
    return exposed


def posted(*texts: bytes) -> Boards:
    boards = Boards()
    for number, text in enumerate(texts):
        boards.make(number)
        board = boards.of(number)
        assert board is not None
        assert board.post(text)
    return boards


def test_a_node_posts_and_the_supervisor_reads() -> None:
    board = _core.Board()
    assert board.read() is None
    assert in_a_child(lambda: board.post(b"grete_live 1\n") and board.post(b"grete_live 0\n"))
    read = board.read()
    assert read is not None
    text, age, cut = read
    assert (text, cut) == (b"grete_live 0\n", False)
    assert 0 <= age < 60


def test_a_node_has_its_own_board_and_no_other() -> None:
    boards = posted(LIVE, LIVE)
    first, second = boards.of(0), boards.of(1)
    assert first is not None
    assert second is not None
    boards.keep(0)

    def a_later_node() -> bool:
        # What it cannot reach it leaves alone, also when it lets go of it.
        blind = first.read() is None and not first.post(b"forged") and second.read() is not None
        boards.drop(0)
        boards.keep(1)
        own_child = in_a_child(lambda: second.read() is None and not second.post(b"forged"))
        return blind and own_child and second.post(b"grete_live 0\n")

    assert in_a_child(a_later_node)
    assert (first.read() or ())[:1] == (LIVE,)
    assert (second.read() or ())[:1] == (b"grete_live 0\n",)


def test_a_successor_begins_with_nothing() -> None:
    boards = posted(LIVE)
    before = boards.of(0)
    boards.make(0)
    after = boards.of(0)
    assert after is not None
    assert after is not before
    assert after.read() is None
    boards.drop(0)
    boards.drop(0)
    assert boards.of(0) is None


def test_what_all_nodes_say_is_one_text() -> None:
    lag = {"handler": "f", "topic": "orders", "partition": "3"}
    text = line("grete_lag_records", lag, 7) + line("grete_live", {}, 1)
    one = told(steady(0), steady(1), boards=posted(text.encode(), LIVE))
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
        os.urandom(10_000),
    ],
)
def test_a_mad_node_spoils_nothing(text: bytes) -> None:
    one = told(steady(0), steady(1), boards=posted(LIVE, text))
    assert one.of("grete_live") == {(("node", "0"),): 1}
    assert one.one("grete_swarm_metrics_complete", node="0") == 1


def test_a_text_that_is_too_long_is_told_as_far_as_it_fits() -> None:
    many = "".join(line("grete_jobs_total", {"handler": f"h{number}"}, number) for number in range(20_000))
    text = f"# HELP grete_live x\ngrete_live 1\n# HELP grete_jobs_total x\n{many}"
    assert len(text) > 512 << 10
    one = told(steady(0), boards=posted(text.encode()))
    assert one.one("grete_live", node="0") == 1
    assert not one.of("grete_jobs_total")
    assert one.one("grete_swarm_metrics_complete", node="0") == 0


def test_nobody_is_told_as_alive_who_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    boards = posted(LIVE)
    gone = steady(0)
    gone.phase, gone.pid, gone.forked_at = Phase.BACKOFF, None, None
    one = told(gone, boards=boards)
    assert not one.of("grete_live")
    assert not one.of("grete_swarm_node_uptime_seconds")
    assert not one.of("grete_swarm_report_age_seconds")
    assert one.one("grete_swarm_metrics_complete", node="0") == 0
    assert one.one("grete_swarm_nodes", state="backoff") == 1
    # One that is stopped goes on to have a process, and its board.
    assert told(steady(0), boards=boards).of("grete_live")
    # But no news.
    monkeypatch.setattr(metrics, "OLDEST", 0.0)
    assert not told(steady(0), boards=boards).of("grete_live")


def test_the_supervisors_own() -> None:
    first, second = steady(0), steady(1)
    first.restarts, first.deaths_by_reason = 3, Counter({"memory": 1, "SIGSEGV": 1, "SIGUSR1": 1})
    second.phase = Phase.STARTING
    second.last_report = second.last_report_at = None
    one = told(first, second)
    states = {dict(labels)["state"]: count for labels, count in one.of("grete_swarm_nodes").items()}
    assert states == {str(phase): phase in (Phase.STEADY, Phase.STARTING) for phase in Phase}
    assert one.one("grete_swarm_restarts_total", node="0") == 3
    deaths = {dict(labels)["reason"]: count for labels, count in one.of("grete_swarm_deaths_total", node="0").items()}
    assert deaths == {**dict.fromkeys(exits.REASONS, 0), "memory": 1, "SIGSEGV": 1, "SIGUSR1": 1}
    assert len(one.of("grete_swarm_deaths_total", node="1")) == len(exits.REASONS)
    assert one.one("grete_swarm_node_uptime_seconds", node="1") == 10
    assert one.of("grete_swarm_report_age_seconds") == {(("node", "0"),): 0.5}
    assert one.one("grete_swarm_supervisor_memory_bytes") > 1 << 20
    assert {name for name in CATALOGUE if name.startswith("grete_swarm_")} == one.families


@pytest.mark.parametrize(
    "own", [("grete_nothing", [], 1.0), ("grete_swarm_restarts_total", [], 1.0), ("grete_live", ["1"], 1.0)]
)
def test_what_is_not_in_the_catalogue_is_refused(own: Any) -> None:
    with pytest.raises(ValueError, match="no metric grete_"):
        _core.gather_metrics([], [own], 5.0)


def test_deaths_are_counted_by_why() -> None:
    manager = Manager(1, Limits(backoff_first=0.01, backoff_cap=0.01))
    node = manager.nodes[0]
    manager.start(1.0)
    now = 1.0
    for way, ends in (("leaks", -15), ("alone", -11), ("alone", 1), ("restart", 0), ("stop", 0)):
        manager.due(now := now + 1.0)
        assert node.phase is Phase.FORKING
        manager.take()
        manager.forked(now, 0, 100)
        if way == "leaks":
            manager.garbled(now, 0, "x")
        elif way == "restart":
            manager.restart(now)
            manager.due(now)
        elif way == "stop":
            manager.stop(now)
        manager.died(now, 0, ends)
    assert node.deaths_by_reason == {"pipe": 1, "SIGSEGV": 1, "exit": 1, "restart": 1, "stop": 1}
    assert node.deaths_by_reason.total() == node.deaths == 5
