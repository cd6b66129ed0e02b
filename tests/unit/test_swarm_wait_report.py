"""What a swarm says of what it waits for: what, why, until when; at first after a while, then again and again."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from grete._swarm.node.report import GroupMembership, Report
from grete._swarm.policy.actions import EmitEvent
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Phase
from grete._swarm.policy.wait_report import FIRST_REPORT_AFTER, REPEAT_REPORT_AFTER
from tests.unit.driven_manager import BEGIN, NOW, DrivenManager, in_phase
from tests.unit.swarm_reports import report

DYNAMIC = Limits(session_timeout=45.0, stale_member_timeout=45.0)


def waiting(swarm: DrivenManager) -> list[EmitEvent]:
    return [
        action
        for action in swarm.manager.take_actions()
        if isinstance(action, EmitEvent) and action.name == "swarm.waiting"
    ]


def joining(state: str = "joining", connections: int | None = 1) -> Report:
    return replace(
        report(ready=False), groups=(GroupMembership("shop", state, 3.0, False, None, 0, None, connections),)
    )


def test_a_node_that_waits_is_named_after_a_while_and_again_and_again() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    said, now = [], NOW
    while now < NOW + 60:
        now += 0.5
        manager.on_report(now, 0, joining())
        swarm.report_others_ready(now)
        manager.on_deadline(now)
        said += [(now, event) for event in waiting(swarm)]
    began = NOW + 0.5
    assert [at for at, _ in said] == [began + FIRST_REPORT_AFTER + REPEAT_REPORT_AFTER * n for n in range(4)]
    event = said[0][1]
    assert (event.fields["nodes"], event.fields["limit"]) == ([0], None)
    for part in ("node 0 (not_ready)", "for 5.0 s", 'group "shop" is joining', "45 s at most (session.timeout.ms, or "):
        assert part in event.text


@pytest.mark.parametrize("name", ["login_failure", "authorization_failure"])
def test_a_node_that_a_broker_refuses_says_why(name: str) -> None:
    swarm = in_phase(Phase.READY)
    failure: dict[str, Any] = {name: "needs Read on group shop: grete acls create"}
    refused = replace(joining("rebalancing", 0).groups[0], **failure)
    swarm.manager.on_report(NOW, 0, replace(joining(), groups=(refused,)))
    assert swarm.manager.wait_causes(NOW) == {
        0: 'group "shop" is rebalancing: needs Read on group shop: grete acls create'
    }


def test_a_wait_that_is_soon_over_is_not_worth_a_line() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.on_report(NOW, 0, joining())
    manager.on_deadline(NOW + FIRST_REPORT_AFTER - 0.1)
    manager.on_report(NOW + FIRST_REPORT_AFTER - 0.1, 0, report())
    swarm.report_others_ready(NOW + FIRST_REPORT_AFTER)
    manager.on_deadline(NOW + FIRST_REPORT_AFTER)
    assert waiting(swarm) == []


def test_a_member_that_a_dead_process_has_left_behind_is_named_with_the_end_of_its_session() -> None:
    swarm = in_phase(Phase.READY, DYNAMIC)
    manager = swarm.manager
    manager.on_exited(NOW, 0, -9)
    manager.on_deadline(NOW + 1)
    manager.on_forked(NOW + 1, 0, 300)
    manager.on_report(NOW + 2, 0, joining())
    manager.on_report(NOW + 2, 1, joining())
    manager.on_deadline(NOW + 7)
    (event,) = waiting(swarm)
    text = "the member of process 100 (node 0), which died without leaving: it is held for 38.0 s more at most"
    assert event.text.count(text) == 2, event.text
    assert "waiting for 2 nodes of 2" in event.text
    assert set(manager.wait_causes(NOW + 7)) == {0, 1}
    assert text in manager.wait_causes(NOW + 7)[1]
    assert "died without leaving" not in manager.wait_causes(NOW + 46)[1], "its session is over"


def test_a_static_member_leaves_nothing_behind_that_others_wait_for() -> None:
    swarm = in_phase(Phase.READY, replace(DYNAMIC, stale_member_timeout=0.0))
    manager = swarm.manager
    manager.on_exited(NOW, 0, -9)
    manager.on_deadline(NOW + 1)
    manager.on_forked(NOW + 1, 0, 300)
    manager.on_report(NOW + 2, 0, joining())
    assert "died without leaving" not in manager.wait_causes(NOW + 7)[0]


def test_a_rolling_restart_says_what_it_waits_for_and_when_it_gives_up() -> None:
    swarm = DrivenManager(Limits(not_ready_timeout=300.0, shutdown_timeout=30.0))
    manager = swarm.manager
    manager.on_forked(BEGIN, 0, 100)
    for node in (0, 1):
        manager.on_report(NOW, node, report())
    manager.restart(NOW)
    manager.on_deadline(NOW)
    swarm.discard_actions()
    manager.on_report(NOW + 5, 1, report())
    manager.on_deadline(NOW + 5)
    (event,) = waiting(swarm)
    assert "node 0 (stopping) for 5.0 s: it finishes what it runs and commits, for 26.0 s more at most" in event.text
    manager.on_exited(NOW + 6, 0, 0)
    manager.on_forked(NOW + 6, 0, 300)
    manager.on_report(NOW + 7, 0, joining("revoking"))
    manager.on_report(NOW + 12, 1, report())
    manager.on_deadline(NOW + 20)
    (event,) = waiting(swarm)
    assert "(the rolling restart gives up in 286.0 s: not_ready_timeout)" in event.text
    assert "300 s at most (max.poll.interval.ms)" in event.text
    assert event.fields["limit"] == 286.0


@pytest.mark.parametrize("command", ["stop", "quiet"])
def test_nothing_is_said_of_a_swarm_that_ends(command: str) -> None:
    swarm = in_phase(Phase.NOT_READY)
    getattr(swarm.manager, command)(NOW)
    swarm.manager.on_deadline(NOW + 30)
    assert waiting(swarm) == []


def test_no_broker_and_no_report_are_causes() -> None:
    swarm = in_phase(Phase.STARTING)
    assert "has not reported yet" in swarm.manager.wait_causes(NOW)[0]
    swarm.manager.on_report(NOW, 0, joining(connections=0))
    assert swarm.manager.wait_causes(NOW)[0] == 'group "shop" is joining: no broker is connected'
