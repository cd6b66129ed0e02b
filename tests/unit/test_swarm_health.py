"""For what a node is replaced, and for what not."""

from pathlib import Path

import pytest

from grete.instrumentation.events import MANAGER
from grete.swarm.actions import Event
from grete.swarm.limits import Limits
from grete.swarm.manager import Phase
from grete.swarm.report import Report
from tests.unit.swarm_driven import ASKED, BEGIN, DUMPED, LONG, NOW, Swarm, in_phase
from tests.unit.swarm_reports import overdue, report


def silent(swarm: Swarm, until: float, start: float = NOW) -> None:
    """Others report each second, and time passes."""
    now = start
    while now < until:
        now = min(now + 1.0, until)
        swarm.well(now)
        swarm.manager.due(now)


def test_silence_is_held_against_a_node_exactly_at_its_limit() -> None:
    swarm = in_phase(Phase.STEADY)
    silent(swarm, NOW + 14.999)
    assert swarm.did() == []
    assert swarm.manager.deadline() == NOW + 15
    swarm.manager.due(NOW + 15)
    event = swarm.said("swarm.node.stopping")
    assert event.text == ("node 0 (pid 100) has not reported for 15.0 s; it is asked to stop and will be replaced")
    assert event.fields | {"reason": "report", "seconds": 15.0, "limit": 15.0, "node": 0, "pid": 100} == event.fields


def test_who_never_reported_is_asked_without_stacks() -> None:
    swarm = in_phase(Phase.STARTING)
    silent(swarm, NOW + 14)
    assert swarm.did() == ASKED


def test_memory_is_told_with_both_figures() -> None:
    swarm = in_phase(Phase.STEADY, Limits(max_rss=2 * 2**20))
    swarm.manager.reported(NOW, 0, report(rss=3 * 2**20))
    event = swarm.said("swarm.node.stopping")
    assert "has 3.0 MiB of resident memory, and max_rss is 2.0 MiB" in event.text
    assert (event.fields["rss"], event.fields["max_rss"]) == (3 * 2**20, 2 * 2**20)


@pytest.mark.parametrize("harmless", [report(rss=2000), report(rss=None), report(gil_wait=29.9)])
def test_what_is_at_its_limit_is_within_it(harmless: Report) -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.reported(NOW, 0, harmless)
    assert swarm.did() == []


def test_no_limit_no_rule() -> None:
    swarm = in_phase(Phase.STEADY, Limits())
    swarm.manager.reported(NOW, 0, report(rss=2**50))
    assert swarm.did() == []


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (report(rss=3000, gil_wait=40, late=(overdue(),)), "memory"),
        (report(gil_wait=40, late=(overdue(),), steady=False), "gil"),
        (report(gil_wait=1, late=(overdue(),), steady=False), "handler"),
    ],
)
def test_the_first_rule_wins(bad: Report, reason: str) -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.reported(NOW, 0, bad)
    assert swarm.node.why_stopping == reason


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
def test_who_holds_the_gil_is_told_from_who_takes_long(held: float, seconds: float, limit: float, reason: str) -> None:
    swarm = in_phase(Phase.STEADY)
    late = (overdue(seconds, limit),) if seconds > limit else ()
    swarm.manager.reported(NOW, 0, report(gil_wait=held, late=late))
    event = swarm.said("swarm.node.stopping")
    assert event.fields["reason"] == reason
    assert event.fields["handler"] == "Orders.consume"
    assert ("the GIL" in event.text or "its GIL" in event.text) is (reason == "gil")


def test_a_handler_is_named_with_its_limit() -> None:
    swarm = in_phase(Phase.STEADY)
    LONG(swarm.manager, NOW)
    event = swarm.said("swarm.node.stopping")
    assert "runs Orders.consume on orders[3] for 12.5 s, its handler_timeout is 10 s" in event.text
    fields = ("handler", "topic", "partition", "seconds", "limit")
    assert [event.fields[name] for name in fields] == ["Orders.consume", "orders", 3, 12.5, 10.0]


def test_a_pipe_that_is_hung_up_is_no_reason_while_its_node_dies() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.hung_up(NOW, 0)
    assert manager.deadline() == NOW + 1
    manager.died(NOW + 0.01, 0, -11)
    assert swarm.said("swarm.node.died").fields["reason"] is None


def test_a_pipe_that_is_hung_up_by_who_lives_on_is_one() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.hung_up(NOW, 0)
    swarm.manager.hung_up(NOW + 0.5, 0)
    swarm.manager.due(NOW + 1)
    assert swarm.said("swarm.node.stopping").fields["reason"] == "pipe"


def test_what_comes_from_an_earlier_life_is_nothing() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.reported(NOW, 0, report(rss=3000), pid=99)
    manager.garbled(NOW, 0, "nonsense", pid=99)
    manager.hung_up(NOW, 0, pid=99)
    manager.due(NOW + 1.5)
    assert swarm.did() == []
    manager.reported(NOW, 0, report(rss=3000), pid=100)
    assert swarm.did() == ASKED


def test_membership_counts_from_when_others_got_steady() -> None:
    """Kafka was away for a long time: who is the second to come back is not late."""
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    for node in (0, 1):
        manager.reported(NOW, node, report(steady=False))
    now = NOW
    while now < NOW + 1000:
        now += 1
        for node in (0, 1):
            manager.reported(now, node, report(steady=False))
        manager.due(now)
    events = [action for action in manager.take() if isinstance(action, Event) and action.level > 10]
    assert [event.name for event in events] == ["swarm.unsteady"]
    while now < NOW + 1299:
        now += 1
        manager.reported(now, 0, report(steady=False))
        swarm.well(now)
        manager.due(now)
    assert swarm.did() == []
    while now < NOW + 1301:
        now += 1
        manager.reported(now, 0, report(steady=False))
        swarm.well(now)
        manager.due(now)
    assert swarm.did() == ASKED
    assert swarm.node.why_stopping == "membership"


def test_the_only_node_is_replaced_when_it_is_not_steady_and_it_is_no_crash() -> None:
    swarm = Swarm(nodes=1)
    manager = swarm.manager
    now = BEGIN
    for life in range(8):
        manager.forked(now, 0, 100 + life)
        until = now + 300
        while now < until:
            now += 1
            manager.reported(now, 0, report(steady=False))
            manager.due(now)
        assert swarm.node.why_stopping == "membership"
        manager.died(now, 0, 0)
        assert swarm.node.next_at == now + min(2**life, 30)
        now = swarm.node.next_at or 0
        manager.due(now)
    assert swarm.node.streak == 0
    assert not manager.stopping


# The supervisor's own absence


def test_who_was_away_heard_nobody_and_holds_it_against_none() -> None:
    swarm = in_phase(Phase.STEADY)
    manager = swarm.manager
    manager.due(NOW + 100)
    assert swarm.said("swarm.late").fields["seconds"] == 100
    assert swarm.node.phase is Phase.STEADY
    assert manager.deadline() == NOW + 115
    # Time that was measured while nothing ran is not held against a node for a while, either.
    manager.reported(NOW + 101, 0, report(gil_wait=101.0))
    manager.reported(NOW + 102, 0, report(late=(overdue(109.0, 10.0),)))
    assert swarm.did() == []
    manager.reported(NOW + 103, 0, report(gil_wait=131.0))
    assert swarm.did() == DUMPED


def test_absence_is_told_once() -> None:
    swarm = in_phase(Phase.BACKOFF)
    for happening in (swarm.well, swarm.well, swarm.manager.due):
        happening(NOW + 100)
    assert swarm.said("swarm.late").fields["seconds"] == 100


def test_who_was_away_does_not_count_that_time_for_any_limit() -> None:
    swarm = Swarm(nodes=3)
    manager = swarm.manager
    manager.forked(NOW, 0, 100)
    steady = (False, False, True)
    for node in range(3):
        manager.reported(NOW, node, report(steady=steady[node]))
    manager.restart(NOW)  # waits for nodes 0 and 1 from now on
    manager.due(NOW + 1)
    swarm.fresh()
    ended = []
    for second in range(1000, 1400):
        for node in range(3):
            manager.reported(NOW + second, node, report(steady=steady[node]))
        manager.due(NOW + second)
        ended.append((manager.rolling, swarm.node.why_stopping))
    assert ended.index((False, "membership")) == 299
    assert ended[298] == (True, None)


def test_who_was_away_lets_a_node_die_whose_pipe_was_hung_up() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.hung_up(NOW, 0)
    swarm.manager.due(NOW + 100)
    assert swarm.did() == []
    assert swarm.manager.deadline() == NOW + 101


def test_the_clock_does_not_go_back() -> None:
    swarm = in_phase(Phase.STEADY)
    swarm.manager.due(NOW + 5)
    swarm.manager.died(NOW - 50, 0, 1)
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
    limits = Limits(report_timeout=off, unsteady_timeout=off, gil_timeout=off, shutdown_timeout=off)
    swarm = Swarm(limits)
    swarm.manager.forked(BEGIN, 0, 100)
    swarm.manager.reported(NOW, 0, report(gil_wait=1e9))
    assert swarm.manager.deadline() is None
    swarm.manager.due(1e9)
    assert swarm.did() == []


def test_events_are_described() -> None:
    for name, described in MANAGER.items():
        assert name.startswith("swarm.")
        assert described.when
        assert len(set(described.fields)) == len(described.fields)


def test_events_and_reasons_are_in_the_documentation() -> None:
    text = (Path(__file__).parents[2] / "docs" / "swarm.md").read_text()
    assert [name for name in MANAGER if f"`{name}`" not in text] == []
    reasons = ("memory", "gil", "handler", "membership", "report", "pipe")
    assert [reason for reason in reasons if f"| `{reason}` |" not in text] == []
