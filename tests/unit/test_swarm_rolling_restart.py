"""Rolling restarts."""

import signal

from grete._swarm.policy.actions import Fork, Signal
from grete._swarm.policy.manager import Phase
from tests.unit.driven_manager import DrivenManager
from tests.unit.swarm_reports import report


def roll(nodes: int = 3) -> DrivenManager:
    swarm = DrivenManager(nodes=nodes)
    swarm.manager.on_forked(98.0, 0, 200)
    for node in range(nodes):
        swarm.manager.on_report(99.0, node, report())
    swarm.discard_actions()
    return swarm


def test_a_rolling_restart_takes_one_after_the_other() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    now = 100.0
    for node in range(3):
        manager.on_deadline(now)
        assert swarm.take_actions() == [Signal(node, signal.SIGTERM), Signal(node, signal.SIGCONT)]
        manager.on_exited(now + 1, node, 0)
        manager.on_deadline(now + 1)
        assert swarm.take_actions() == [Fork(node)]  # at once
        manager.on_forked(now + 1, node, 300 + node)
        manager.on_report(now + 2, node, report(ready=False))
        manager.on_deadline(now + 2)
        assert swarm.take_actions() == []  # it is not back yet
        for other in range(3):
            manager.on_report(now + 3, other, report())
        now += 3
        assert manager.deadline() == now
        assert manager.rolling
    manager.on_deadline(now)
    assert swarm.take_event("swarm.restarted").fields == {"nodes": 3, "seconds": 9.0}
    assert not manager.rolling


def test_a_death_after_a_ready_report_stops_the_rolling_restart() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.on_deadline(100.0)
    manager.on_exited(101.0, 0, 0)
    manager.on_forked(101.0, 0, 300)
    swarm.discard_actions()
    manager.on_report(102.0, 0, report())
    manager.on_exited(102.0, 0, -11)
    manager.on_deadline(102.0)
    assert swarm.take_actions() == []
    assert manager.rolling


def test_the_death_of_another_stops_the_round_until_that_one_is_back() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.on_deadline(100.0)
    manager.on_exited(100.5, 1, -11)
    manager.on_exited(101.0, 0, 0)
    manager.on_forked(101.0, 0, 300)
    manager.on_report(101.1, 0, report())
    manager.on_deadline(101.1)
    swarm.discard_actions()
    manager.on_deadline(101.5)
    assert swarm.take_actions() == [Fork(1)]
    manager.on_forked(101.5, 1, 301)
    manager.on_report(101.6, 1, report())
    manager.on_deadline(101.6)
    assert swarm.take_actions() == [Signal(2, signal.SIGTERM), Signal(2, signal.SIGCONT)]  # node 1 is new already


def test_a_node_that_does_not_get_ready_ends_the_rolling_restart() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.on_deadline(100.0)
    manager.on_exited(101.0, 0, 0)
    manager.on_forked(101.0, 0, 300)
    now = 101.0
    while manager.rolling:
        now += 1
        for node in range(3):
            manager.on_report(now, node, report(ready=node != 0))
        manager.on_deadline(now)
    assert now == 401
    event = swarm.take_event("swarm.restart_failed")
    assert event.fields == {"reason": "not_ready", "left": [1, 2], "blocking": [0]}
    assert "it has waited 300 s for node 0 (starting) to be ready; not replaced: nodes 1, 2" in event.text


def test_a_second_round_is_asked_for_in_the_first() -> None:
    swarm = roll(2)
    manager = swarm.manager
    manager.restart(100.0)
    manager.on_deadline(100.0)
    manager.on_exited(101.0, 0, 0)
    manager.on_forked(101.0, 0, 300)
    manager.restart(101.5)
    manager.on_deadline(101.5)
    swarm.discard_actions()
    assert swarm.node.phase is Phase.STOPPING  # it lives, so it is replaced; it was the one that is away anyway
    manager.on_exited(102.0, 0, 0)
    manager.on_forked(102.0, 0, 301)
    manager.on_report(103.0, 0, report())
    manager.on_deadline(103.0)
    assert swarm.take_actions() == [Fork(0), Signal(1, signal.SIGTERM), Signal(1, signal.SIGCONT)]


def test_a_node_that_is_not_ready_goes_first() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.on_report(100.0, 1, report(ready=False))
    manager.restart(100.0)
    manager.on_deadline(100.0)
    assert swarm.take_actions() == [Signal(1, signal.SIGTERM), Signal(1, signal.SIGCONT)]


def test_quiet_ends_the_round_and_begins_none() -> None:
    swarm = roll()
    manager = swarm.manager
    manager.restart(100.0)
    manager.on_deadline(100.0)
    manager.quiet(100.1)
    assert swarm.take_event("swarm.restart_failed").fields["left"] == [1, 2]
    manager.on_exited(100.2, 0, 0)
    assert swarm.node.phase is Phase.DOWN
    swarm.discard_actions()
    manager.restart(101.0)
    assert swarm.take_event("swarm.restart_failed").text == "no rolling restart: the swarm is quiet"
