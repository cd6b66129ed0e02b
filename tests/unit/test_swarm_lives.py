"""Deaths and what comes after them: backoff, crash loops, the swarm's own end."""

import pytest

from grete.swarm.actions import Event, Exit, Fork
from grete.swarm.limits import Limits
from grete.swarm.manager import Manager, Phase
from tests.unit.swarm_driven import ASKED, BEGIN, CONT, INT, LEAKS, LIMITS, LONG, NOW, TERM, Swarm, in_phase
from tests.unit.swarm_reports import report


def test_backoff_doubles_to_its_cap_and_starts_anew_when_the_node_was_well() -> None:
    swarm = Swarm(Limits(crash_loop_after=100))
    manager = swarm.manager
    now, delays = BEGIN, []
    for life in range(8):
        manager.forked(now, 0, 100)
        manager.reported(now, 0, report())
        now += 9.999 if life < 7 else 10.0
        swarm.well(now)
        manager.died(now, 0, 1)
        assert swarm.node.next_at is not None
        delays.append(round(swarm.node.next_at - now, 6))
        for second in range(int(delays[-1])):
            swarm.well(now + second)
        now = swarm.node.next_at
        swarm.fresh()
        manager.due(now - 0.001)
        assert swarm.did() == []
        manager.due(now)
        assert swarm.did() == [Fork(0)]
    assert delays == [1, 2, 4, 8, 16, 30, 30, 1]


def test_a_crash_loop_is_told_once_and_ends_with_a_life_that_lasts() -> None:
    swarm = Swarm()
    manager = swarm.manager
    now, told = BEGIN, []
    for life in range(7):
        manager.forked(now, 0, 100)
        now += 0.5
        manager.died(now, 0, -11)
        events = [action for action in manager.take() if isinstance(action, Event)]
        told.append([event for event in events if event.name == "swarm.crash_loop"])
        assert swarm.node.looping is (life >= 4)
        for second in range(1, 31):
            swarm.well(now + second)
        now += 30
        manager.due(now)
    assert [len(events) for events in told] == [0, 0, 0, 0, 1, 0, 0]
    assert told[4][0].fields == {"node": 0, "lives": 5, "last_death": "killed by SIGSEGV"}
    manager.forked(now, 0, 100)
    manager.reported(now + 1, 0, report())
    manager.reported(now + 11, 0, report())
    assert swarm.said("swarm.node.recovered").fields["lives"] == 7
    assert not swarm.node.looping


def test_when_every_node_loops_the_rest_stops_and_the_status_is_1() -> None:
    swarm = Swarm(Limits(crash_loop_after=2))
    manager = swarm.manager
    manager.forked(98.0, 0, 100)
    manager.died(98.5, 0, 1)
    manager.due(99.5)
    manager.forked(99.5, 0, 101)
    manager.died(99.6, 0, 1)  # node 0 loops
    manager.died(99.7, 1, 1)
    manager.due(100.7)
    manager.forked(100.7, 1, 202)
    manager.due(101.6)
    manager.forked(101.6, 0, 102)  # tried again all the same
    swarm.fresh()
    manager.died(101.7, 1, 1)
    assert swarm.did() == ASKED
    assert manager.stopping
    manager.died(101.8, 0, 0)
    assert swarm.did() == [Exit(1)]


def test_a_fork_that_fails_is_tried_again_with_backoff() -> None:
    swarm = Swarm(nodes=1)
    manager = swarm.manager
    manager.fork_failed(98.0, 0, OSError(11, "Resource temporarily unavailable"))
    event = swarm.said("swarm.node.fork_failed")
    assert "lacks memory or processes" in event.text
    assert event.fields["restart_in"] == 1
    assert manager.deadline() == 99
    manager.due(99.0)
    manager.fork_failed(99.0, 0, OSError(12, "Cannot allocate memory"))
    assert manager.deadline() == 101


@pytest.mark.parametrize(
    ("status", "text", "level"),
    [
        (-9, "was killed by SIGKILL, not from us: the kernel's OOM killer, or somebody by hand, its last report", 40),
        (-11, "was killed by SIGSEGV, after", 40),
        (1, "ended with exit 1: its own log says why", 40),
        (0, "ended with exit 0, though nobody here asked it to", 30),
        (3, "ended with exit 3: nobody read its reports, so it took us for gone", 40),
        (-64, "was killed by SIGRTMAX", 40),
        (-50, "was killed by signal 50", 40),
    ],
)
def test_deaths_in_words(status: int, text: str, level: int) -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.died(NOW, 0, status)
    event = swarm.said("swarm.node.died")
    assert text in event.text
    assert event.text.endswith("the next one is forked in 1 s")
    assert event.level == level


def test_what_was_meant_for_the_dead_is_withdrawn() -> None:
    swarm = in_phase(Phase.STEADY)
    LONG(swarm.manager, NOW)
    swarm.manager.died(NOW, 0, 1)
    assert swarm.did() == []


# The end


@pytest.mark.parametrize(
    ("statuses", "status"),
    [
        ((0, 0), 0),
        ((0, 1), 1),
        ((-11, 0), 1),
        ((1, 2), 2),
        ((2, 1), 2),
        ((-15, -15), 0),  # had no handlers yet
        ((3, 0), 1),
    ],
)
def test_the_exit_status_is_that_of_the_worst_end(statuses: tuple[int, int], status: int) -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.stop(NOW)
    swarm.fresh()
    swarm.manager.died(NOW + 1, 0, statuses[0])
    assert swarm.did() == []
    swarm.manager.died(NOW + 1, 1, statuses[1])
    assert swarm.did() == [Exit(status)]
    assert swarm.manager.exit_status == status
    assert swarm.manager.deadline() is None


def test_who_had_to_be_killed_makes_it_2() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.stop(NOW)
    swarm.manager.died(NOW + 1, 1, 0)
    swarm.manager.due(NOW + 31)
    swarm.manager.died(NOW + 31, 0, -9)
    assert swarm.did()[-1] == Exit(2)


def test_who_ended_in_the_moment_of_its_kill_has_ended_by_itself() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.stop(NOW)
    swarm.manager.died(NOW + 1, 1, 0)
    swarm.manager.due(NOW + 31)
    swarm.manager.died(NOW + 31, 0, 0)
    assert swarm.did()[-1] == Exit(0)


def test_a_death_that_was_made_up_for_does_not_count() -> None:
    swarm = in_phase(Phase.BACKOFF)
    swarm.manager.stop(NOW)
    swarm.manager.died(NOW, 1, 0)
    assert swarm.did()[-1] == Exit(0)


def test_a_death_in_the_quiet_counts_as_nothing_makes_up_for_it() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.quiet(NOW)
    swarm.fresh()
    manager.died(NOW, 0, -11)
    event = swarm.said("swarm.node.died")
    assert event.text.endswith("it stays down: the swarm is quiet")
    assert event.fields["restart_in"] is None
    manager.stop(NOW + 1)
    manager.died(NOW + 1, 1, 0)
    assert swarm.did()[-1] == Exit(1)


def test_quiet_nodes_are_still_watched() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.quiet(NOW)
    swarm.fresh()
    LEAKS(swarm.manager, NOW)
    event = swarm.said("swarm.node.stopping")
    assert event.text.endswith("it is asked to stop and will not be replaced: the swarm is quiet")


def test_a_fork_that_is_done_too_late_is_undone() -> None:
    swarm = in_phase(Phase.FORKING)  # and somebody is just doing it
    manager = swarm.manager
    manager.hurry(NOW)
    manager.died(NOW, 1, 0)
    assert not [action for action in swarm.did() if isinstance(action, Exit)]
    manager.forked(NOW, 0, 101)
    assert swarm.did() == [TERM, CONT, INT]
    manager.died(NOW, 0, -15)
    assert swarm.did() == [Exit(0)]


def test_stop_before_there_is_anybody_is_the_end() -> None:
    manager = Manager(3, LIMITS)
    manager.start(0.0)
    manager.stop(0.0)
    assert [action for action in manager.take() if not isinstance(action, Event)] == [Exit(0)]
    for command in (manager.stop, manager.hurry, manager.quiet, manager.restart, manager.dump, manager.due):
        command(1.0)
    assert manager.take() == []
