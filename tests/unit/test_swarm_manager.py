"""The Manager's decision table: each phase of a node, each event, what follows; and stops, step by step."""

import signal

import pytest

from grete._swarm.policy.actions import Action, DumpStacks, Fork, Kill
from grete._swarm.policy.limits import EXPEDITED_STOP_TIMEOUT, KILL_TIMEOUT, Limits
from grete._swarm.policy.manager import Manager, Phase
from tests.unit.driven_manager import (
    CONT,
    DIES,
    GARBLED,
    HUNG_UP,
    INT,
    LEAKS,
    LONG,
    NOW,
    STACKS_DUMPED,
    STOP_SIGNALS,
    TERM,
    TSTP,
    WEDGED,
    Step,
    in_phase,
    reports,
)
from tests.unit.swarm_reports import report

SERVING = (Phase.STARTING, Phase.READY, Phase.NOT_READY)
ENDING = (Phase.STOPPING, Phase.KILLED)
DEAD = (Phase.BACKOFF, Phase.DOWN)
# What happens, in which phases, the actions that follow, the phase after it.
TABLE: list[tuple[str, Step, tuple[Phase, ...], list[Action], Phase | None]] = [
    ("reports ready", reports(), SERVING, [], Phase.READY),
    ("reports ready", reports(), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("reports not ready", reports(ready=False), (Phase.STARTING,), [], Phase.STARTING),
    ("reports not ready", reports(ready=False), (Phase.READY, Phase.NOT_READY), [], Phase.NOT_READY),
    ("reports not ready", reports(ready=False), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("reports its own stop", reports(stopping=True), SERVING, [], Phase.STOPPING),
    ("reports its own stop", reports(stopping=True), (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("leaks", LEAKS, SERVING, [*STOP_SIGNALS], Phase.STOPPING),
    ("leaks", LEAKS, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("wedged", WEDGED, SERVING, STACKS_DUMPED, Phase.STOPPING),
    ("wedged", WEDGED, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("runs long", LONG, SERVING, STACKS_DUMPED, Phase.STOPPING),
    ("runs long", LONG, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("garbled", GARBLED, SERVING, [*STOP_SIGNALS], Phase.STOPPING),
    ("garbled", GARBLED, (*ENDING, *DEAD, Phase.FORKING), [], None),
    ("hung up", HUNG_UP, tuple(Phase), [], None),
    ("dies", DIES, (*SERVING, Phase.STOPPING), [], Phase.BACKOFF),
    # It had been ready for long enough before it hung.
    ("dies", DIES, (Phase.KILLED,), [Fork(0)], Phase.FORKING),
    ("dies", DIES, (*DEAD, Phase.FORKING), [], None),
    ("stop", Manager.stop, SERVING, [*STOP_SIGNALS], Phase.STOPPING),
    ("stop", Manager.stop, (*ENDING, Phase.DOWN), [], None),
    ("stop", Manager.stop, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("expedite", Manager.expedite, SERVING, [*STOP_SIGNALS, INT], Phase.STOPPING),
    ("expedite", Manager.expedite, (Phase.STOPPING,), [INT], None),
    ("expedite", Manager.expedite, (Phase.KILLED, Phase.DOWN), [], None),
    ("expedite", Manager.expedite, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("quiet", Manager.quiet, (Phase.READY, Phase.NOT_READY), [TSTP], None),
    ("quiet", Manager.quiet, (Phase.STARTING, *ENDING, Phase.DOWN), [], None),
    ("quiet", Manager.quiet, (Phase.BACKOFF, Phase.FORKING), [], Phase.DOWN),
    ("dump", Manager.dump, (Phase.READY, Phase.NOT_READY, *ENDING), [DumpStacks(0)], None),
    ("dump", Manager.dump, (Phase.STARTING, *DEAD, Phase.FORKING), [], None),
    ("due", Manager.on_deadline, tuple(Phase), [], None),
]
CASES = [
    pytest.param(phase, happening, actions, after or phase, id=f"{phase}-{name}")
    for name, happening, phases, actions, after in TABLE
    for phase in phases
]


@pytest.mark.parametrize(("phase", "happening", "actions", "after"), CASES)
def test_each_phase_and_each_event(phase: Phase, happening: Step, actions: list[Action], after: Phase) -> None:
    swarm = in_phase(phase)
    if phase is Phase.FORKING:
        swarm.manager.actions.append(Fork(0))  # still to be done
    happening(swarm.manager, swarm.node.since)
    followed = [action for action in swarm.take_actions() if getattr(action, "node", 0) == 0]
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
def test_an_unrequested_fork_is_refused(phase: Phase) -> None:
    swarm = in_phase(phase)
    with pytest.raises(ValueError, match=f"node 0 is {phase}: no fork was requested"):
        swarm.manager.on_forked(swarm.node.since, 0, 101)
    with pytest.raises(ValueError, match="no fork was requested"):
        swarm.manager.on_fork_failed(swarm.node.since, 0, OSError(11, "no"))


# Stops, step by step


@pytest.mark.parametrize(("happening", "reason"), [(WEDGED, "gil"), (LONG, "handler")], ids=["gil", "handler"])
def test_stacks_come_before_term_and_kill_comes_exactly_at_its_time(happening: Step, reason: str) -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    happening(manager, NOW)
    assert swarm.node.stop_reason == reason
    assert swarm.take_actions() == STACKS_DUMPED
    assert manager.deadline() == NOW + 1.5
    manager.on_deadline(NOW + 1.499)
    assert swarm.take_actions() == []
    manager.on_deadline(NOW + 1.5)
    assert swarm.take_actions() == STOP_SIGNALS
    kill_at = NOW + 1.5 + 31.0
    assert swarm.node.kill_at == kill_at
    for now in (NOW + 10, NOW + 20, NOW + 30):
        swarm.report_others_ready(now)
    manager.on_deadline(kill_at - 0.001)
    assert swarm.take_actions() == []
    assert manager.deadline() == kill_at
    manager.on_deadline(kill_at)
    assert swarm.take_actions() == [Kill(0)]
    assert swarm.node.phase is Phase.KILLED


def test_term_that_comes_late_leaves_the_node_its_whole_time() -> None:
    swarm = in_phase(Phase.READY)
    LONG(swarm.manager, NOW)
    swarm.discard_actions()
    swarm.manager.on_deadline(NOW + 60)
    assert swarm.take_actions() == STOP_SIGNALS
    assert swarm.node.kill_at == NOW + 60 + 31


def test_a_node_that_outlives_kill_is_reported_once() -> None:
    swarm = in_phase(Phase.KILLED)
    since = swarm.node.since
    swarm.report_others_ready(since + 5)
    swarm.manager.on_deadline(since + KILL_TIMEOUT)
    event = swarm.take_event("swarm.node.unkillable")
    assert event.text.startswith("node 0 (pid 100) is still alive 10.0 s after SIGKILL: the kernel cannot end it")
    swarm.report_others_ready(since + 15)
    swarm.manager.on_deadline(since + 2 * KILL_TIMEOUT)
    assert not [action for action in swarm.manager.take_actions() if "unkillable" in str(action)]


def test_who_stops_by_itself_has_the_time_of_a_stop_and_is_replaced() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.on_report(NOW, 0, report(stopping=True))
    event = swarm.take_event("swarm.node.stopping")
    assert event.fields["reason"] == "itself"
    assert swarm.node.kill_at == NOW + 31
    manager.on_exited(NOW + 3, 0, 0)
    event = swarm.take_event("swarm.node.died")
    assert "ended with exit 0, although the supervisor did not ask it to stop" in event.text
    assert swarm.node.next_at == NOW + 4


def test_a_node_that_had_recovered_is_replaced_at_once_and_only_once() -> None:
    swarm = in_phase(Phase.READY)
    manager, died = swarm.manager, NOW + Limits().ready_after
    manager.on_exited(died, 0, -signal.SIGKILL)
    assert swarm.take_actions() == [Fork(0)]
    manager.on_forked(died, 0, 101)
    manager.on_exited(died + 1, 0, -signal.SIGKILL)
    assert "is forked again in 1 s" in swarm.take_event("swarm.node.died").text
    assert swarm.node.next_at == died + 1 + Limits().backoff_first


def test_hurry_moves_kill_and_never_back() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.stop(NOW)
    assert swarm.node.kill_at == NOW + 31
    swarm.discard_actions()
    manager.expedite(NOW + 2)
    assert swarm.take_actions()[0] == INT
    assert swarm.node.kill_at == NOW + 2 + 1 + EXPEDITED_STOP_TIMEOUT
    manager.expedite(NOW + 4)
    assert swarm.take_actions() == []
    assert swarm.node.kill_at == NOW + 2 + 1 + EXPEDITED_STOP_TIMEOUT


def test_hurry_sends_term_before_int_where_stacks_were_waited_for() -> None:
    swarm = in_phase(Phase.READY)
    LONG(swarm.manager, NOW)
    swarm.discard_actions()
    swarm.manager.expedite(NOW + 0.1)
    mine = [action for action in swarm.take_actions() if getattr(action, "node", None) == 0]
    assert mine == [TERM, CONT, INT]
    assert swarm.manager.deadline() == NOW + 0.1 + 1 + EXPEDITED_STOP_TIMEOUT


def test_hurry_is_no_slower_than_a_short_stop() -> None:
    swarm = in_phase(Phase.READY, Limits(shutdown_timeout=2.0))
    LONG(swarm.manager, NOW)
    swarm.manager.expedite(NOW + 0.1)
    assert swarm.node.kill_at == NOW + 0.1 + 2.0 + 1.0


def test_a_node_without_handlers_gets_no_signal_that_would_stop_it() -> None:
    swarm = in_phase(Phase.STARTING)
    manager = swarm.manager
    manager.quiet(NOW)
    manager.dump(NOW)
    assert [action for action in swarm.take_actions() if getattr(action, "node", 0) == 0] == []
    manager.on_report(NOW + 1, 0, report())
    assert swarm.take_actions() == [TSTP]
    manager.on_report(NOW + 2, 0, report())
    assert swarm.take_actions() == []
