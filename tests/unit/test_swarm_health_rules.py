"""For what a node is replaced, and for what not."""

from dataclasses import replace
from pathlib import Path

import pytest

from grete._swarm.node.report import Report
from grete._swarm.policy.actions import EmitEvent
from grete._swarm.policy.limits import Limits
from grete._swarm.policy.manager import Phase
from grete._swarm.policy.wait_report import FIRST_REPORT_AFTER, REPEAT_REPORT_AFTER
from grete.instrumentation.events import MANAGER
from tests.unit.driven_manager import BEGIN, LONG, NOW, STACKS_DUMPED, STOP_SIGNALS, DrivenManager, in_phase
from tests.unit.swarm_reports import NOT_READY, overdue, report


def silent(swarm: DrivenManager, until: float, start: float = NOW) -> None:
    """Others report each second, and time passes."""
    now = start
    while now < until:
        now = min(now + 1.0, until)
        swarm.report_others_ready(now)
        swarm.manager.on_deadline(now)


def test_silence_is_held_against_a_node_exactly_at_its_limit() -> None:
    swarm = in_phase(Phase.READY)
    silent(swarm, NOW + 14.999)
    assert swarm.take_actions() == []
    assert swarm.manager.deadline() == NOW + 15
    swarm.manager.on_deadline(NOW + 15)
    event = swarm.take_event("swarm.node.stopping")
    assert event.text == ("node 0 (pid 100) has not reported for 15.0 s; it is asked to stop and will be replaced")
    assert event.fields | {"reason": "report", "seconds": 15.0, "limit": 15.0, "node": 0, "pid": 100} == event.fields


def test_who_never_reported_is_asked_without_stacks() -> None:
    swarm = in_phase(Phase.STARTING)
    silent(swarm, NOW + 14)
    assert swarm.take_actions() == STOP_SIGNALS


def test_memory_is_reported_with_both_figures() -> None:
    swarm = in_phase(Phase.READY, Limits(max_rss=2 * 2**20))
    swarm.manager.on_report(NOW, 0, report(rss=3 * 2**20))
    event = swarm.take_event("swarm.node.stopping")
    assert "has 3.0 MiB of resident memory, and max_rss is 2.0 MiB" in event.text
    assert (event.fields["rss"], event.fields["max_rss"]) == (3 * 2**20, 2 * 2**20)


@pytest.mark.parametrize("harmless", [report(rss=2000), report(rss=None), report(gil_wait=29.9)])
def test_what_is_at_its_limit_is_within_it(harmless: Report) -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_report(NOW, 0, harmless)
    assert swarm.take_actions() == []


def test_no_limit_no_rule() -> None:
    swarm = in_phase(Phase.READY, Limits())
    swarm.manager.on_report(NOW, 0, report(rss=2**50))
    assert swarm.take_actions() == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (report(rss=3000, gil_wait=40, late=(overdue(),)), "memory"),
        (report(gil_wait=40, late=(overdue(),), ready=False), "gil"),
        (report(gil_wait=1, late=(overdue(),), ready=False), "handler"),
    ],
)
def test_the_first_rule_wins(bad: Report, reason: str) -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_report(NOW, 0, bad)
    assert swarm.node.stop_reason == reason


@pytest.mark.parametrize(
    ("held", "seconds", "limit", "reason"),
    [
        (29.96, 30.0, 99.0, "gil"),  # a hair below its limit, at the report where it is reached
        (2.1, 2.2, 2.0, "gil"),
        (1.4, 2.2, 2.0, "handler"),  # a slow call, perhaps
        (4.9, 12.0, 10.0, "handler"),
        (5.1, 600.0, 10.0, "gil"),  # after 300 good messages, one that a regular expression does not come back from
    ],
)
def test_a_held_gil_is_distinguished_from_a_long_job(held: float, seconds: float, limit: float, reason: str) -> None:
    swarm = in_phase(Phase.READY)
    late = (overdue(seconds, limit),) if seconds > limit else ()
    swarm.manager.on_report(NOW, 0, report(gil_wait=held, late=late))
    event = swarm.take_event("swarm.node.stopping")
    assert event.fields["reason"] == reason
    assert event.fields["handler"] == "Orders.consume"
    assert ("the GIL" in event.text or "its GIL" in event.text) is (reason == "gil")


def test_a_handler_is_named_with_its_limit() -> None:
    swarm = in_phase(Phase.READY)
    LONG(swarm.manager, NOW)
    event = swarm.take_event("swarm.node.stopping")
    assert "runs Orders.consume on orders[3] for 12.5 s, its handler_timeout is 10 s" in event.text
    fields = ("handler", "topic", "partition", "seconds", "limit")
    assert [event.fields[name] for name in fields] == ["Orders.consume", "orders", 3, 12.5, 10.0]


def test_a_pipe_that_is_hung_up_is_no_reason_while_its_node_dies() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.on_pipe_closed(NOW, 0)
    assert manager.deadline() == NOW + 1
    manager.on_exited(NOW + 0.01, 0, -11)
    assert swarm.take_event("swarm.node.died").fields["reason"] is None


def test_a_pipe_that_is_hung_up_by_who_lives_on_is_one() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_pipe_closed(NOW, 0)
    swarm.manager.on_pipe_closed(NOW + 0.5, 0)
    swarm.manager.on_deadline(NOW + 1)
    assert swarm.take_event("swarm.node.stopping").fields["reason"] == "pipe"


def test_what_comes_from_an_earlier_life_is_nothing() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.on_report(NOW, 0, report(rss=3000), pid=99)
    manager.on_invalid_report(NOW, 0, "nonsense", pid=99)
    manager.on_pipe_closed(NOW, 0, pid=99)
    manager.on_deadline(NOW + 1.5)
    assert swarm.take_actions() == []
    manager.on_report(NOW, 0, report(rss=3000), pid=100)
    assert swarm.take_actions() == STOP_SIGNALS


def test_membership_counts_from_when_others_got_ready() -> None:
    """Kafka was away for a long time: who is the second to come back is not late."""
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    for node in (0, 1):
        manager.on_report(NOW, node, report(ready=False))
    now = NOW
    while now < NOW + 1000:
        now += 1
        for node in (0, 1):
            manager.on_report(now, node, report(ready=False))
        manager.on_deadline(now)
    events = [action for action in manager.take_actions() if isinstance(action, EmitEvent) and action.level > 10]
    waits = [event for event in events if event.name == "swarm.waiting"]
    assert [event.name for event in events if event not in waits] == ["swarm.not_ready"]
    assert len(waits) == 1 + (1000 - FIRST_REPORT_AFTER) // REPEAT_REPORT_AFTER, (
        "said again and again, and not too often"
    )
    while now < NOW + 1299:
        now += 1
        manager.on_report(now, 0, report(ready=False))
        swarm.report_others_ready(now)
        manager.on_deadline(now)
    assert swarm.take_actions() == []
    while now < NOW + 1301:
        now += 1
        manager.on_report(now, 0, report(ready=False))
        swarm.report_others_ready(now)
        manager.on_deadline(now)
    assert swarm.take_actions() == STOP_SIGNALS
    assert swarm.node.stop_reason == "membership"


def test_a_node_that_lacks_an_acl_is_not_replaced_because_no_restart_creates_one() -> None:
    swarm = in_phase(Phase.READY)
    refused = replace(NOT_READY, authorization_failure="the client needs Read")
    now = NOW
    while now < NOW + 1000:
        now += 1
        swarm.manager.on_report(now, 0, replace(report(ready=False), groups=(refused,)))
        swarm.report_others_ready(now)
        swarm.manager.on_deadline(now)
    assert swarm.node.stop_reason is None
    assert swarm.node.phase is Phase.NOT_READY


def test_the_error_that_ends_a_node_is_part_of_its_death() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_last_error(NOW, 0, "cannot log in")
    swarm.manager.on_exited(NOW, 0, 1)
    assert swarm.node.last_death == "exit 1: cannot log in"
    swarm.manager.on_deadline(NOW + 1)
    swarm.manager.on_forked(NOW + 1, 0, 300)
    swarm.manager.on_last_error(NOW + 2, 0, "of another process", pid=100)
    swarm.manager.on_exited(NOW + 3, 0, 1)
    assert swarm.node.last_death == "exit 1"


def test_the_only_node_is_replaced_when_it_is_not_ready_and_it_is_no_crash() -> None:
    swarm = DrivenManager(nodes=1)
    manager = swarm.manager
    now = BEGIN
    for life in range(8):
        manager.on_forked(now, 0, 100 + life)
        until = now + 300
        while now < until:
            now += 1
            manager.on_report(now, 0, report(ready=False))
            manager.on_deadline(now)
        assert swarm.node.stop_reason == "membership"
        manager.on_exited(now, 0, 0)
        assert swarm.node.next_at == now + min(2**life, 30)
        now = swarm.node.next_at or 0
        manager.on_deadline(now)
    assert swarm.node.short_lives == 0
    assert not manager.stopping


# The supervisor's own absence


def test_silence_during_a_supervisor_stall_is_held_against_no_node() -> None:
    swarm = in_phase(Phase.READY)
    manager = swarm.manager
    manager.on_deadline(NOW + 100)
    assert swarm.take_event("swarm.supervisor_stalled").fields["seconds"] == 100
    assert swarm.node.phase is Phase.READY
    assert manager.deadline() == NOW + 115
    # Time that was measured while nothing ran is not held against a node for a while, either.
    manager.on_report(NOW + 101, 0, report(gil_wait=101.0))
    manager.on_report(NOW + 102, 0, report(late=(overdue(109.0, 10.0),)))
    assert swarm.take_actions() == []
    manager.on_report(NOW + 103, 0, report(gil_wait=131.0))
    assert swarm.take_actions() == STACKS_DUMPED


def test_a_stall_is_reported_once() -> None:
    swarm = in_phase(Phase.BACKOFF)
    for happening in (swarm.report_others_ready, swarm.report_others_ready, swarm.manager.on_deadline):
        happening(NOW + 100)
    assert swarm.take_event("swarm.supervisor_stalled").fields["seconds"] == 100


def test_who_was_away_does_not_count_that_time_for_any_limit() -> None:
    swarm = DrivenManager(nodes=3)
    manager = swarm.manager
    manager.on_forked(NOW, 0, 100)
    steady = (False, False, True)
    for node in range(3):
        manager.on_report(NOW, node, report(ready=steady[node]))
    manager.restart(NOW)  # waits for nodes 0 and 1 from now on
    manager.on_deadline(NOW + 1)
    swarm.discard_actions()
    ended = []
    for second in range(1000, 1400):
        for node in range(3):
            manager.on_report(NOW + second, node, report(ready=steady[node]))
        manager.on_deadline(NOW + second)
        ended.append((manager.rolling, swarm.node.stop_reason))
    assert ended.index((False, "membership")) == 299
    assert ended[298] == (True, None)


def test_who_was_away_lets_a_node_die_whose_pipe_was_hung_up() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_pipe_closed(NOW, 0)
    swarm.manager.on_deadline(NOW + 100)
    assert swarm.take_actions() == []
    assert swarm.manager.deadline() == NOW + 101


def test_the_clock_does_not_go_back() -> None:
    swarm = in_phase(Phase.READY)
    swarm.manager.on_deadline(NOW + 5)
    swarm.manager.on_exited(NOW - 50, 0, 1)
    assert swarm.node.next_at == NOW + 6


# Words and numbers


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"report_timeout": 0.0}, "report_timeout is above zero, not 0.0"),
        ({"kill_grace": -1.0}, "kill_grace is above zero"),
        ({"shutdown_timeout": -1.0}, "shutdown_timeout is not negative"),
        ({"gil_timeout": float("nan")}, "gil_timeout is above zero, not nan"),
        ({"crash_loop_after": True}, "crash_loop_after is above zero, not True"),
        ({"backoff_first": 0.0}, "backoff_first is above zero"),
        ({"backoff_first": 40.0}, "the longest backoff, 30.0 s, is below the first, 40.0 s"),
        ({"backoff_cap": float("inf")}, "the longest backoff is finite"),
    ],
)
def test_limits_that_no_clock_can_keep_are_refused(wrong: dict[str, float], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        Limits(**wrong)  # type: ignore[arg-type]


def test_timeouts_may_be_switched_off() -> None:
    off = float("inf")
    limits = Limits(report_timeout=off, not_ready_timeout=off, gil_timeout=off, shutdown_timeout=off)
    swarm = DrivenManager(limits)
    swarm.manager.on_forked(BEGIN, 0, 100)
    swarm.manager.on_report(NOW, 0, report(gil_wait=1e9))
    swarm.report_others_ready(NOW)
    assert swarm.manager.deadline() is None
    swarm.manager.on_deadline(1e9)
    assert swarm.take_actions() == []


def test_events_are_described() -> None:
    for name, described in MANAGER.items():
        assert name.startswith("swarm.")
        assert described.description
        assert len(set(described.fields)) == len(described.fields)


def test_events_and_reasons_are_in_the_documentation() -> None:
    docs = Path(__file__).parents[2] / "docs"
    text = (docs / "swarm.md").read_text() + (docs / "swarm-operation.md").read_text()
    assert [name for name in MANAGER if f"`{name}`" not in text] == []
    reasons = ("memory", "gil", "handler", "membership", "report", "pipe")
    assert [reason for reason in reasons if f"| `{reason}` |" not in text] == []
