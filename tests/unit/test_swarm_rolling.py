"""Rolling restarts."""

import signal

from grete.swarm.actions import Fork, Signal
from grete.swarm.manager import Phase
from tests.unit.swarm_driven import (
    Swarm,
)
from tests.unit.swarm_reports import report


def roll(nodes: int = 3) -> Swarm:
    swarm = Swarm(nodes=nodes)
    swarm.manager.forked(98.0, 0, 200)
    for node in range(nodes):
        swarm.manager.reported(99.0, node, report())
    swarm.fresh()
    return swarm


def test_a_rolling_restart_takes_one_after_the_other() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    now = 100.0
    for node in range(3):
        manager.due(now)
        assert swarm.did() == [Signal(node, signal.SIGTERM), Signal(node, signal.SIGCONT)]
        manager.died(now + 1, node, 0)
        manager.due(now + 1)
        assert swarm.did() == [Fork(node)]  # at once
        manager.forked(now + 1, node, 300 + node)
        manager.reported(now + 2, node, report(steady=False))
        manager.due(now + 2)
        assert swarm.did() == []  # it is not back yet
        for other in range(3):
            manager.reported(now + 3, other, report())
        now += 3
        assert manager.deadline() == now
        assert manager.rolling
    manager.due(now)
    assert swarm.said("swarm.restarted").fields == {"nodes": 3, "seconds": 9.0}
    assert not manager.rolling


def test_a_death_that_is_told_after_a_steady_report_stops_the_round() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.due(100.0)
    manager.died(101.0, 0, 0)
    manager.forked(101.0, 0, 300)
    swarm.fresh()
    manager.reported(102.0, 0, report())
    manager.died(102.0, 0, -11)
    manager.due(102.0)
    assert swarm.did() == []
    assert manager.rolling


def test_the_death_of_another_stops_the_round_until_that_one_is_back() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.due(100.0)
    manager.died(100.5, 1, -11)
    manager.died(101.0, 0, 0)
    manager.forked(101.0, 0, 300)
    manager.reported(101.1, 0, report())
    manager.due(101.1)
    swarm.fresh()
    manager.due(101.5)
    assert swarm.did() == [Fork(1)]
    manager.forked(101.5, 1, 301)
    manager.reported(101.6, 1, report())
    manager.due(101.6)
    assert swarm.did() == [Signal(2, signal.SIGTERM), Signal(2, signal.SIGCONT)]  # node 1 is new already


def test_who_does_not_get_steady_ends_the_round() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.due(100.0)
    manager.died(101.0, 0, 0)
    manager.forked(101.0, 0, 300)
    now = 101.0
    while manager.rolling:
        now += 1
        for node in range(3):
            manager.reported(now, node, report(steady=node != 0))
        manager.due(now)
    assert now == 401
    event = swarm.said("swarm.restart_failed")
    assert event.fields == {"reason": "unsteady", "left": [1, 2], "blocking": [0]}
    assert "it has waited 300 s for node 0 (starting) to be steady; not replaced: nodes 1, 2" in event.text


def test_a_second_round_is_asked_for_in_the_first() -> None:
    swarm = roll(2)
    manager = swarm.manager
    manager.restart(100.0)
    manager.due(100.0)
    manager.died(101.0, 0, 0)
    manager.forked(101.0, 0, 300)
    manager.restart(101.5)
    manager.due(101.5)
    swarm.fresh()
    assert swarm.node.phase is Phase.STOPPING  # it lives, so it is replaced; it was the one that is away anyway
    manager.died(102.0, 0, 0)
    manager.forked(102.0, 0, 301)
    manager.reported(103.0, 0, report())
    manager.due(103.0)
    assert swarm.did() == [Fork(0), Signal(1, signal.SIGTERM), Signal(1, signal.SIGCONT)]


def test_a_node_that_is_not_steady_goes_first() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.reported(100.0, 1, report(steady=False))
    manager.restart(100.0)
    manager.due(100.0)
    assert swarm.did() == [Signal(1, signal.SIGTERM), Signal(1, signal.SIGCONT)]


def test_quiet_ends_the_round_and_begins_none() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.due(100.0)
    manager.quiet(100.1)
    assert swarm.said("swarm.restart_failed").fields["left"] == [1, 2]
    manager.died(100.2, 0, 0)
    assert swarm.node.phase is Phase.DOWN
    swarm.fresh()
    manager.restart(101.0)
    assert swarm.said("swarm.restart_failed").text == "no rolling restart: the swarm is quiet"
