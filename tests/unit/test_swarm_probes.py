"""What the probes say, and over what."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from grete._swarm.net import probe_server
from grete._swarm.net.probe_server import ProbeServer
from grete._swarm.node.metrics_segments import MetricsSegments
from grete._swarm.node.report import FailedPartition, GroupMembership, UnmovedLane
from grete._swarm.policy.node_state import NodeState, Phase
from grete._swarm.status import health_checks
from grete._swarm.status.snapshot import Status
from grete.errors import ConfigError
from tests.unit.exposition import Exposition
from tests.unit.fake_swarm import overdue, ready_node, status, talk
from tests.unit.test_swarm_http import split


def node(phase: Phase, number: int = 1, now: float = 100.0, **facts: Any) -> NodeState:
    one = ready_node(number, now)
    one.phase, one.since = phase, now - 3.0
    for name, value in facts.items():
        setattr(one, name, value)
    return one


KILLED = node(Phase.KILLED, stop_reason="handler", kill_at=94.9)
GONE: dict[str, Any] = {"pid": None, "forked_at": None}


@pytest.mark.parametrize(
    ("swarm", "live", "ready"),
    [
        (status(ready_node(0), ready_node(1)), True, True),
        (status(ready_node(0), node(Phase.BACKOFF, next_at=104.5, **GONE)), True, True),
        (status(ready_node(0), node(Phase.STOPPING, stop_reason="memory", kill_at=101.0)), True, True),
        (status(node(Phase.STARTING)), True, False),
        (status(node(Phase.NOT_READY)), True, False),
        (status(node(Phase.BACKOFF, looping=False, **GONE)), True, False),
        (status(ready_node(0), stopping=True), True, False),
        (status(ready_node(0), quieted=True), True, True),
        (status(ready_node(0), KILLED), False, True),
        (status(ready_node(0), node(Phase.KILLED, kill_at=95.1)), True, True),
        (status(ready_node(0), node(Phase.BACKOFF, looping=True, **GONE)), True, True),
        (status(node(Phase.BACKOFF, 0, looping=True, **GONE), node(Phase.DOWN, looping=True, **GONE)), False, False),
    ],
)
def test_when_exactly_the_probes_fail(swarm: Status, live: bool, ready: bool) -> None:
    assert health_checks.check_liveness(swarm)["ok"] is live
    assert health_checks.check_readiness(swarm)["ok"] is ready
    for path, expected in (("/livez", live), ("/readyz", ready), ("/", True), ("/metrics", True)):
        assert probe_server.handle_request("GET", path, lambda: swarm, MetricsSegments()).status == (
            200 if expected else 503
        )


def test_a_failing_one_says_who_and_since_when() -> None:
    swarm = status(ready_node(0), KILLED)
    assert (
        health_checks.check_liveness(swarm)["why"]
        == f"node 1 (process {KILLED.pid}) is still there 5 s after SIGKILL was due"
    )
    (problem,) = health_checks.check_liveness(swarm)["problems"]
    assert (problem["node"], problem["reason"], problem["state"]) == (1, "unkillable", "killed")


@pytest.mark.parametrize(
    ("facts", "reason", "text"),
    [
        (node(Phase.STOPPING, stop_reason="memory"), "memory", "node 1 has been stopping for 3.0 s: memory"),
        (node(Phase.STOPPING), "stop", "node 1 has been stopping for 3.0 s: stop"),
        (
            node(Phase.BACKOFF, last_death="killed by SIGSEGV", next_at=104.5, **GONE),
            "died",
            "node 1 died (killed by SIGSEGV), starts again in 4.5 s",
        ),
        (node(Phase.DOWN, last_death="exit 1", **GONE), "died", "node 1 is down (exit 1)"),
        (node(Phase.STARTING, last_report=None), "starting", "node 1 has been starting for 3.0 s"),
        (node(Phase.FORKING, **GONE), "starting", "node 1 has been starting for 3.0 s"),
    ],
)
def test_what_is_amiss_with_a_node(facts: NodeState, reason: str, text: str) -> None:
    (problem,) = health_checks.collect_problems(status(ready_node(0), facts))
    assert (problem["node"], problem["reason"], problem["text"], problem["seconds"]) == (1, reason, text, 3.0)


def test_a_late_handler_is_named_with_its_place() -> None:
    (problem,) = health_checks.collect_problems(status(ready_node(0, overdue=(overdue(),))))
    assert problem == {
        "node": 0,
        "state": "ready",
        "reason": "handler",
        "seconds": 312.5,
        "limit": 300.0,
        "handler": "Orders.consume",
        "topic": "orders",
        "partition": 3,
        "text": "node 0: Orders.consume has run for 312.5 s on orders[3], and its handler_timeout is 300 s",
    }


def test_a_held_gil_a_stalled_lane_and_a_waiting_group_are_named() -> None:
    swarm = status(ready_node(0, gil_wait=7.25, stalled=("orders[1]", "orders[3]")))
    other, oldest, gil = health_checks.collect_problems(swarm)
    assert other["text"] == "node 0: a job on orders[1] has taken longer than its stall_after"
    assert oldest["text"] == "node 0: Orders.consume has run for 12.5 s on orders[3], longer than its stall_after"
    assert (oldest["handler"], oldest["topic"], oldest["partition"]) == ("Orders.consume", "orders", 3)
    assert gil["text"] == "node 0: one thread has held the GIL for 7.2 s"
    (blocked,) = health_checks.collect_problems(status(ready_node(0, loop_wait=2.25)))
    assert blocked["text"] == "node 0: the event loop has been blocked for 2.2 s, and all its async handlers wait"
    assert health_checks.collect_problems(status(ready_node(0, loop_wait=0.9))) == []
    (once,) = health_checks.collect_problems(status(ready_node(0, overdue=(overdue(),), stalled=("orders[3]",))))
    assert once["reason"] == "handler", "what is late is stalled, too: that is said once"
    waiting = ready_node(0, groups=(GroupMembership("shop", "joining", 9.0, False, None, 0, None),))
    waiting.phase, waiting.since = Phase.NOT_READY, 91.0
    (problem,) = health_checks.collect_problems(status(waiting))
    assert problem["text"] == 'node 0 has not been ready for 9.0 s: group "shop" is joining'


def test_a_partition_that_does_not_move_is_named_with_what_it_waits_for_once() -> None:
    def unmoved(partition: int, waits_for: str) -> UnmovedLane:
        return UnmovedLane("Orders.consume", "orders", partition, waits_for, "a transaction is open", 31.5, 7)

    failed = FailedPartition("Orders.consume", "orders", 2, "no_offset", "it has none", 2.5)
    lanes = (unmoved(1, "open_transaction"), unmoved(2, "failed"), unmoved(3, "handler"), unmoved(4, "handler"))
    swarm = status(ready_node(0, stalled=("orders[3]",), unmoved=lanes, failed=(failed,)))
    call, first, second, unreadable = health_checks.collect_problems(swarm)
    assert first == {
        "node": 0,
        "state": "ready",
        "reason": "stalled",
        "handler": "Orders.consume",
        "topic": "orders",
        "partition": 1,
        "waits_for": "open_transaction",
        "seconds": 31.5,
        "lag": 7,
        "text": "node 0: orders[1] has not moved for 31.5 s: a transaction is open",
    }
    assert call["text"].startswith("node 0: Orders.consume has run"), "a call that runs for too long is told already"
    returned = ready_node(0, stalled=("orders[5]",), unmoved=(unmoved(5, "delivery"),))
    (problem,) = health_checks.collect_problems(status(returned))
    assert problem["waits_for"] == "delivery", "a call that has returned is not named as one that runs"
    assert (second["partition"], unreadable["reason"]) == (4, "partition")


@pytest.mark.parametrize(("name", "reason"), [("login_failure", "login"), ("authorization_failure", "authorization")])
def test_what_a_broker_refuses_is_named_with_its_node(name: str, reason: str) -> None:
    member = GroupMembership("shop", "stable", 9.0, True, 4, 3, None, 1, **{name: "check sasl.password"})
    swarm = status(ready_node(0), ready_node(1, groups=(member,)))
    (problem,) = health_checks.collect_problems(swarm)
    assert problem == {
        "node": 1,
        "state": "ready",
        "reason": reason,
        "group": "shop",
        "text": 'node 1: group "shop": check sasl.password',
    }
    assert health_checks.check_readiness(swarm)["ok"]
    waiting = ready_node(1, groups=(replace(member, state="rebalancing", ready=False),))
    waiting.phase = Phase.NOT_READY
    swarm = status(waiting)
    assert health_checks.check_readiness(swarm)["why"] == (
        'no node is ready; node 1: group "shop": check sasl.password'
    )
    (problem,) = health_checks.collect_problems(swarm)
    assert problem["reason"] == "membership"


@pytest.mark.parametrize(
    ("probes", "live", "ready"), [("readyz", True, False), ("livez", False, False), ("none", True, True)]
)
def test_a_partition_that_cannot_be_read_is_named(probes: str, live: bool, ready: bool) -> None:
    unread = FailedPartition("Orders.consume", "orders", 3, "no_offset", "it has none", 7.0)
    swarm = status(ready_node(0), ready_node(1, failed=(unread,)))
    swarm["failed_partition_probes"] = probes
    assert (health_checks.check_liveness(swarm)["ok"], health_checks.check_readiness(swarm)["ok"]) == (live, ready)
    (problem,) = health_checks.collect_problems(swarm)
    assert problem == {
        "node": 1,
        "state": "ready",
        "reason": "partition",
        "handler": "Orders.consume",
        "topic": "orders",
        "partition": 3,
        "failure": "no_offset",
        "error": "it has none",
        "seconds": 7.0,
        "text": "node 1: orders[3] cannot be read for 7.0 s (no_offset): it has none",
    }
    if not ready:
        assert health_checks.check_readiness(swarm)["why"] == problem["text"]


def test_the_report_of_a_process_that_is_gone_says_nothing() -> None:
    row = status(node(Phase.BACKOFF, **GONE))["nodes"][0]
    assert (row["rss"], row["lanes"], row["oldest"], row["report_age"], row["uptime"]) == (
        None,
        {},
        None,
        None,
        None,
    )
    row = status(ready_node())["nodes"][0]
    assert (row["uptime"], row["report_age"], row["seconds"], row["lag"]) == (10.0, 0.5, 8.0, 1200)
    assert row["oldest"] == {"handler": "Orders.consume", "topic": "orders", "partition": 3, "seconds": 12.5}


@pytest.fixture
def opened() -> Any:
    servers: list[ProbeServer] = []

    def make(host: str, answer: Callable[[], Status] = lambda: status(ready_node())) -> ProbeServer:
        made = probe_server.open_server((host, 0), lambda memory: answer(), MetricsSegments())
        assert made is not None
        servers.append(made)
        return made

    yield make
    for made in servers:
        made.close()


def get(server: ProbeServer, sent: bytes, address: str | None = None) -> tuple[int, dict[str, str], Any]:
    host, _, port = (address or server.addresses[0]).rpartition(":")
    client = socket.create_connection((host.strip("[]"), int(port)), timeout=10)
    return split(talk(server, client, sent))


def test_it_answers_over_http(opened: Any) -> None:
    server = opened("127.0.0.1")
    status_, headers, body = get(server, b"GET /readyz HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status_, body["ok"], body["why"], headers["Content-Type"]) == (
        200,
        True,
        "1 of 1 node is ready",
        "application/json",
    )
    status_, headers, body = get(server, b"HEAD /livez HTTP/1.0\r\n\r\n")
    assert (status_, body) == (200, None)
    status_, headers, body = get(server, b"POST /livez HTTP/1.0\r\n\r\n")
    assert (status_, headers["Allow"]) == (405, "GET, HEAD")
    assert get(server, b"POST /livez HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc")[0] == 400
    assert get(server, b"GET /metric HTTP/1.0\r\n\r\n")[0] == 404
    body = get(server, b"GET / HTTP/1.0\r\n\r\n")[2]
    assert (body["live"]["ok"], body["ready"]["ok"], len(body["status"]["nodes"])) == (True, True, 1)


def test_metrics_are_text(opened: Any) -> None:
    server = opened("127.0.0.1")
    host, _, port = server.addresses[0].rpartition(":")
    client = socket.create_connection((host, int(port)), timeout=10)
    head, _, body = talk(server, client, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").partition(b"\r\n\r\n")
    assert b"\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n" in head
    assert f"\r\nContent-Length: {len(body)}\r\n".encode() in head
    assert Exposition(body).one("grete_swarm_nodes", state="ready") == 1


def test_a_status_that_fails_is_a_500_and_the_server_stays(opened: Any) -> None:
    def fails() -> Status:
        raise RuntimeError("planted")

    server = opened("127.0.0.1", fails)
    for _ in range(2):
        assert get(server, b"GET /livez HTTP/1.0\r\n\r\n")[0] == 500


def test_ipv6_and_all_interfaces(opened: Any) -> None:
    if not socket.has_dualstack_ipv6():
        pytest.skip("no IPv6 here")
    request = b"GET /livez HTTP/1.0\r\n\r\n"
    try:
        six = opened("::1")
    except ConfigError:
        pytest.skip("no IPv6 loopback here")
    assert six.addresses[0].startswith("[::1]:")
    assert get(six, request)[0] == 200
    all_ = opened("")
    port = all_.addresses[0].rpartition(":")[2]
    for host in ("127.0.0.1", "[::1]"):
        assert get(all_, request, f"{host}:{port}")[0] == 200


def test_a_name_is_all_of_its_addresses(opened: Any) -> None:
    server = opened("localhost")
    for address in server.addresses:
        assert get(server, b"GET /livez HTTP/1.0\r\n\r\n", address)[0] == 200
    assert len({address.rpartition(":")[2] for address in server.addresses}) == 1


def test_what_is_in_the_way_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            ConfigError, match=f"cannot listen at 127.0.0.1:{port}: Address already in use; name another"
        ):
            probe_server.open_server(("127.0.0.1", port), lambda memory: status(), MetricsSegments())
    with pytest.raises(ConfigError, match=r"cannot listen at 203\.0\.113\.1:80: Cannot assign requested address"):
        probe_server.open_server(("203.0.113.1", 80), lambda memory: status(), MetricsSegments())
    with pytest.raises(ConfigError, match=r"cannot listen at nowhere\.invalid:80: "):
        probe_server.open_server(("nowhere.invalid", 80), lambda memory: status(), MetricsSegments())
    with pytest.raises(ConfigError, match="cannot listen at"):
        probe_server.open_server(("x" * 70 + ".y", 80), lambda memory: status(), MetricsSegments())
    assert probe_server.open_server(None, lambda memory: status(), MetricsSegments()) is None
