"""The Manager's decision table: each phase of a node, each event, what follows; and stops, step by step."""

import pytest

from grete.swarm.actions import Action, Dump, Fork, Kill
from grete.swarm.limits import HURRY, UNKILLABLE, Limits
from grete.swarm.manager import Manager, Phase
from tests.unit.swarm_driven import (
    ASKED,
    CONT,
    DIES,
    DUMPED,
    GARBLED,
    HUNG_UP,
    INT,
    LEAKS,
    LONG,
    NOW,
    TERM,
    TSTP,
    WEDGED,
    Happening,
    in_phase,
    reports,
)
from tests.unit.swarm_reports import report

SERVING = (Phase.STARTING, Phase.STEADY, Phase.UNSTEADY)
ENDING = (Phase.STOPPING, Phase.KILLED)
DEAD = (Phase.BACKOFF, Phase.DOWN)
# What happens, in which phases, the actions that follow, the phase after it.
TABLE: list[tuple[str, Happening, tuple[Phase, ...], list[Action], Phase | None]] = [
    ("reports steady", reports(), SERVING, [], Phase.STEADY),
    ("reports steady", reports(), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("reports unsteady", reports(steady=False), (Phase.STARTING,), [], Phase.STARTING),
    ("reports unsteady", reports(steady=False), (Phase.STEADY, Phase.UNSTEADY), [], Phase.UNSTEADY),
    ("reports unsteady", reports(steady=False), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("reports its own stop", reports(stopping=True), SERVING, [], Phase.STOPPING),
    ("reports its own stop", reports(stopping=True), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("leaks", LEAKS, SERVING, [*ASKED], Phase.STOPPING),
    ("leaks", LEAKS, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("wedged", WEDGED, SERVING, DUMPED, Phase.STOPPING),
    ("wedged", WEDGED, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("runs long", LONG, SERVING, DUMPED, Phase.STOPPING),
    ("runs long", LONG, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("garbled", GARBLED, SERVING, [*ASKED], Phase.STOPPING),
    ("garbled", GARBLED, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("hung up", HUNG_UP, tuple(Phase), [], None),
    ("dies", DIES, (*SERVING, *ENDING), [], Phase.BACKOFF),
    ("dies", DIES, (*DEAD, Phase.FORKING), [], None),
    ("stop", Manager.stop, SERVING, [*ASKED], Phase.STOPPING),
    ("stop", Manager.stop, (*ENDING, Phase.DOWN), [], None),
    ("stop", Manager.stop, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("hurry", Manager.hurry, SERVING, [*ASKED, INT], Phase.STOPPING),
    ("hurry", Manager.hurry, (Phase.STOPPING,), [INT], None),
    ("hurry", Manager.hurry, (Phase.KILLED, Phase.DOWN), [], None),
    ("hurry", Manager.hurry, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("quiet", Manager.quiet, (Phase.STEADY, Phase.UNSTEADY), [TSTP], None),
    ("quiet", Manager.quiet, (Phase.STARTING, *ENDING, Phase.DOWN), [], None),
    ("quiet", Manager.quiet, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("dump", Manager.dump, (Phase.STEADY, Phase.UNSTEADY, *ENDING), [Dump(0)], None),
    ("dump", Manager.dump, (Phase.STARTING, *DEAD, Phase.FORKING), [], None),
    ("due", Manager.due, tuple(Phase), [], None),
]
CASES = [
    pytest.param(phase, happening, actions, after or phase, id=f"{phase}-{name}")
    for name, happening, phases, actions, after in TABLE
    for phase in phases
]


@pytest.mark.parametrize(("phase", "happening", "actions", "after"), CASES)
def test_each_phase_and_each_event(phase: Phase, happening: Happening, actions: list[Action], after: Phase) -> None:
    swarm = in_phase(phase)
    if phase is Phase.FORKING:
        swarm.manager.actions.append(Fork(0))  # still to be done
    happening(swarm.manager, swarm.node.since)
    followed = [action for action in swarm.did() if getattr(action, "node", 0) == 0]
    if phase is Phase.FORKING:
        assert (Fork(0) in followed) is (after is Phase.FORKING)
        followed = [action for action in followed if action != Fork(0)]
    assert followed == actions
    assert swarm.node.phase is after


def test_the_table_has_all_pairs() -> None:
    names = {name for name, *_ in TABLE}
    pairs = [(name, phase) for name, _, phases, _, _ in TABLE for phase in phases]
    assert sorted(pairs) == sorted((name, phase) for name in names for phase in Phase)


@pytest.mark.parametrize("phase", [phase for phase in Phase if phase is not Phase.FORKING])
def test_a_fork_that_nobody_asked_for_is_refused(phase: Phase) -> None:
    swarm = in_phase(phase)
    with pytest.raises(ValueError, match=f"node 0 is {phase}: nobody has asked for a fork"):
        swarm.manager.forked(swarm.node.since, 0, 101)
    with pytest.raises(ValueError, match="nobody has asked for a fork"):
        swarm.manager.fork_failed(swarm.node.since, 0, OSError(11, "no"))


# Stops, step by step


@pytest.mark.parametrize(("happening", "reason"), [(WEDGED, "gil"), (LONG, "handler")], ids=["gil", "handler"])
def test_stacks_come_before_term_and_kill_comes_exactly_at_its_time(happening: Happening, reason: str) -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    happening(manager, NOW)
    assert swarm.node.why_stopping == reason
    assert swarm.did() == DUMPED
    assert manager.deadline() == NOW + 1.5
    manager.due(NOW + 1.499)
    assert swarm.did() == []
    manager.due(NOW + 1.5)
    assert swarm.did() == ASKED
    kill_at = NOW + 1.5 + 31.0
    assert swarm.node.kill_at == kill_at
    for now in (NOW + 10, NOW + 20, NOW + 30):
        swarm.well(now)
    manager.due(kill_at - 0.001)
    assert swarm.did() == []
    assert manager.deadline() == kill_at
    manager.due(kill_at)
    assert swarm.did() == [Kill(0)]
    assert swarm.node.phase is Phase.KILLED


def test_term_that_comes_late_leaves_the_node_its_whole_time() -> None:
    swarm = in_phase(Phase.STEADY)
    LONG(swarm.manager, NOW)
    swarm.fresh()
    swarm.manager.due(NOW + 60)
    assert swarm.did() == ASKED
    assert swarm.node.kill_at == NOW + 60 + 31


def test_who_outlives_kill_is_told_once() -> None:
    swarm = in_phase(Phase.KILLED)
    since = swarm.node.since
    swarm.well(since + 5)
    swarm.manager.due(since + UNKILLABLE)
    event = swarm.said("swarm.node.unkillable")
    assert event.text.startswith("node 0 (pid 100) lives 10.0 s after SIGKILL: the kernel keeps it")
    swarm.well(since + 15)
    swarm.manager.due(since + 2 * UNKILLABLE)
    assert not [action for action in swarm.manager.take() if "unkillable" in str(action)]


def test_who_stops_by_itself_has_the_time_of_a_stop_and_is_replaced() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.reported(NOW, 0, report(stopping=True))
    event = swarm.said("swarm.node.stopping")
    assert event.fields["reason"] == "itself"
    assert swarm.node.kill_at == NOW + 31
    manager.died(NOW + 3, 0, 0)
    event = swarm.said("swarm.node.died")
    assert "ended with exit 0, though nobody here asked it to" in event.text
    assert swarm.node.next_at == NOW + 4


def test_hurry_moves_kill_and_never_back() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.stop(NOW)
    assert swarm.node.kill_at == NOW + 31
    swarm.fresh()
    manager.hurry(NOW + 2)
    assert swarm.did()[0] == INT
    assert swarm.node.kill_at == NOW + 2 + 1 + HURRY
    manager.hurry(NOW + 4)
    assert swarm.did() == []
    assert swarm.node.kill_at == NOW + 2 + 1 + HURRY


def test_hurry_sends_term_before_int_where_stacks_were_waited_for() -> None:
    swarm = in_phase(Phase.STEADY)
    LONG(swarm.manager, NOW)
    swarm.fresh()
    swarm.manager.hurry(NOW + 0.1)
    mine = [action for action in swarm.did() if getattr(action, "node", None) == 0]
    assert mine == [TERM, CONT, INT]
    assert swarm.manager.deadline() == NOW + 0.1 + 1 + HURRY


def test_hurry_is_no_slower_than_a_short_stop() -> None:
    swarm = in_phase(Phase.STEADY, Limits(shutdown_timeout=2.0))
    LONG(swarm.manager, NOW)
    swarm.manager.hurry(NOW + 0.1)
    assert swarm.node.kill_at == NOW + 0.1 + 2.0 + 1.0


def test_a_node_without_handlers_gets_no_signal_that_would_stop_it() -> None:
    swarm = in_phase(Phase.STARTING)
    manager = swarm.manager
    manager.quiet(NOW)
    manager.dump(NOW)
    assert [action for action in swarm.did() if getattr(action, "node", 0) == 0] == []
    manager.reported(NOW + 1, 0, report())
    assert swarm.did() == [TSTP]
    manager.reported(NOW + 2, 0, report())
    assert swarm.did() == []
