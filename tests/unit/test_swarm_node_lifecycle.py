"""Deaths and what comes after them: backoff, crash loops, the swarm's own end."""

import pytest

from grete._swarm.policy.actions import EmitEvent, Exit, Fork, LeaveGroupsOnStop
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Manager, Phase
from tests.unit.driven_manager import (
    BEGIN,
    CONT,
    INT,
    LEAKS,
    LIMITS,
    LONG,
    NOW,
    STOP_SIGNALS,
    TERM,
    DrivenManager,
    in_phase,
)
from tests.unit.swarm_reports import report


def test_backoff_doubles_to_its_cap_and_starts_anew_when_the_node_was_well() -> None:
    swarm = DrivenManager(Limits(crash_loop_after=100))
    manager = swarm.manager
    now, delays = BEGIN, []
    for life in range(9):
        manager.on_forked(now, 0, 100)
        manager.on_report(now, 0, report())
        now += 10.0 if life == 7 else 9.999
        swarm.report_others_ready(now)
        swarm.discard_actions()
        manager.on_exited(now, 0, 1)
        if life == 7:
            delays.append(0.0)
            assert swarm.take_actions() == [Fork(0)]
            continue
        assert swarm.node.next_at is not None
        delays.append(round(swarm.node.next_at - now, 6))
        for second in range(int(delays[-1])):
            swarm.report_others_ready(now + second)
        now = swarm.node.next_at
        swarm.discard_actions()
        manager.on_deadline(now - 0.001)
        assert swarm.take_actions() == []
        manager.on_deadline(now)
        assert swarm.take_actions() == [Fork(0)]
    assert delays == [1, 2, 4, 8, 16, 30, 30, 0, 1]


def test_a_crash_loop_is_reported_once_and_ends_with_a_life_that_lasts() -> None:
    swarm = DrivenManager()
    manager = swarm.manager
    now, reported = BEGIN, []
    for life in range(7):
        manager.on_forked(now, 0, 100)
        now += 0.5
        manager.on_exited(now, 0, -11)
        events = [action for action in manager.take_actions() if isinstance(action, EmitEvent)]
        reported.append([event for event in events if event.name == "swarm.crash_loop"])
        assert swarm.node.looping is (life >= 4)
        for second in range(1, 31):
            swarm.report_others_ready(now + second)
        now += 30
        manager.on_deadline(now)
    assert [len(events) for events in reported] == [0, 0, 0, 0, 1, 0, 0]
    assert reported[4][0].fields == {"node": 0, "lives": 5, "last_death": "killed by SIGSEGV"}
    manager.on_forked(now, 0, 100)
    manager.on_report(now + 1, 0, report())
    manager.on_report(now + 11, 0, report())
    assert swarm.take_event("swarm.node.recovered").fields["lives"] == 7
    assert not swarm.node.looping


def test_one_early_death_is_one() -> None:
    swarm = DrivenManager(Limits(crash_loop_after=1))
    swarm.manager.on_forked(98.0, 0, 100)
    swarm.manager.on_exited(98.5, 0, 1)
    assert "node 0 is in a crash loop: 1 early death in a row" in swarm.take_event("swarm.crash_loop").text


def test_when_every_node_loops_the_rest_stops_and_the_status_is_1() -> None:
    swarm = DrivenManager(Limits(crash_loop_after=2))
    manager = swarm.manager
    manager.on_forked(98.0, 0, 100)
    manager.on_exited(98.5, 0, 1)
    manager.on_deadline(99.5)
    manager.on_forked(99.5, 0, 101)
    manager.on_exited(99.6, 0, 1)  # node 0 loops
    manager.on_exited(99.7, 1, 1)
    manager.on_deadline(100.7)
    manager.on_forked(100.7, 1, 202)
    manager.on_deadline(101.6)
    manager.on_forked(101.6, 0, 102)  # tried again all the same
    swarm.discard_actions()
    manager.on_exited(101.7, 1, 1)
    assert swarm.take_actions() == STOP_SIGNALS
    assert manager.stopping
    manager.on_exited(101.8, 0, 0)
    assert swarm.take_actions() == [Exit(1)]


def test_a_fork_that_fails_is_tried_again_with_backoff() -> None:
    swarm = DrivenManager(nodes=1)
    manager = swarm.manager
    manager.on_fork_failed(98.0, 0, OSError(11, "Resource temporarily unavailable"))
    event = swarm.take_event("swarm.node.fork_failed")
    assert "lacks memory or processes" in event.text
    assert event.fields["restart_in"] == 1
    assert manager.deadline() == 99
    manager.on_deadline(99.0)
    manager.on_fork_failed(99.0, 0, OSError(12, "Cannot allocate memory"))
    assert manager.deadline() == 101


@pytest.mark.parametrize(
    ("status", "text", "level"),
    [
        (
            -9,
            "was killed by SIGKILL, not by the supervisor: by the kernel's OOM killer, or by hand; its last report",
            40,
        ),
        (-11, "was killed by SIGSEGV, after", 40),
        (1, "ended with exit 1: its own log says why", 40),
        (0, "ended with exit 0, although the supervisor did not ask it to stop", 30),
        (3, "ended with exit 3: its reports were not read, so it assumed that the supervisor had died", 40),
        (-64, "was killed by SIGRTMAX", 40),
        (-50, "was killed by signal 50", 40),
    ],
)
def test_deaths_in_words(status: int, text: str, level: int) -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_exited(NOW, 0, status)
    event = swarm.take_event("swarm.node.died")
    assert text in event.text
    assert event.text.endswith("it is forked again in 1 s")
    assert event.level == level


def test_what_was_meant_for_the_dead_is_withdrawn() -> None:
    swarm = in_phase(Phase.READY)
    LONG(swarm.manager, NOW)
    swarm.manager.on_exited(NOW, 0, 1)
    assert swarm.take_actions() == []


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
    swarm = in_phase(Phase.READY)
    swarm.manager.stop(NOW)
    swarm.discard_actions()
    swarm.manager.on_exited(NOW + 1, 0, statuses[0])
    assert swarm.take_actions() == []
    swarm.manager.on_exited(NOW + 1, 1, statuses[1])
    assert swarm.take_actions() == [Exit(status)]
    assert swarm.manager.exit_status == status
    assert swarm.manager.deadline() is None


def test_who_had_to_be_killed_makes_it_2() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.stop(NOW)
    swarm.manager.on_exited(NOW + 1, 1, 0)
    swarm.manager.on_deadline(NOW + 31)
    swarm.manager.on_exited(NOW + 31, 0, -9)
    assert swarm.take_actions()[-1] == Exit(2)


def test_who_ended_in_the_moment_of_its_kill_has_ended_by_itself() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.stop(NOW)
    swarm.manager.on_exited(NOW + 1, 1, 0)
    swarm.manager.on_deadline(NOW + 31)
    swarm.manager.on_exited(NOW + 31, 0, 0)
    assert swarm.take_actions()[-1] == Exit(0)


def test_a_death_that_was_made_up_for_does_not_count() -> None:
    swarm = in_phase(Phase.BACKOFF)
    swarm.manager.stop(NOW)
    swarm.manager.on_exited(NOW, 1, 0)
    assert swarm.take_actions()[-1] == Exit(0)


def test_a_death_in_the_quiet_counts_as_nothing_makes_up_for_it() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.quiet(NOW)
    swarm.discard_actions()
    manager.on_exited(NOW, 0, -11)
    event = swarm.take_event("swarm.node.died")
    assert event.text.endswith("it stays down: the swarm is quiet")
    assert event.fields["restart_in"] is None
    manager.stop(NOW + 1)
    manager.on_exited(NOW + 1, 1, 0)
    assert swarm.take_actions()[-1] == Exit(1)


def test_quiet_nodes_are_still_watched() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.quiet(NOW)
    swarm.discard_actions()
    LEAKS(swarm.manager, NOW)
    event = swarm.take_event("swarm.node.stopping")
    assert event.text.endswith("it is asked to stop and will not be replaced: the swarm is quiet")


def test_a_fork_that_is_done_too_late_is_undone() -> None:
    swarm = in_phase(Phase.FORKING)  # and the mechanism is just doing it
    manager = swarm.manager
    manager.expedite(NOW)
    manager.on_exited(NOW, 1, 0)
    assert not [action for action in swarm.take_actions() if isinstance(action, Exit)]
    manager.on_forked(NOW, 0, 101)
    assert swarm.take_actions() == [TERM, CONT, INT]
    manager.on_exited(NOW, 0, -15)
    assert swarm.take_actions() == [Exit(0)]


def test_stop_before_there_is_anybody_is_the_end() -> None:
    manager = Manager(3, LIMITS)
    manager.start(0.0)
    manager.stop(0.0)
    assert [action for action in manager.take_actions() if not isinstance(action, EmitEvent)] == [
        LeaveGroupsOnStop(),
        Exit(0),
    ]
    for command in (manager.stop, manager.expedite, manager.quiet, manager.restart, manager.dump, manager.on_deadline):
        command(1.0)
    assert manager.take_actions() == []
