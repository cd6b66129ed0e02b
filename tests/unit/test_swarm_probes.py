"""What the probes say, and over what."""

from __future__ import annotations

import socket
from collections.abc import Callable
from typing import Any

import pytest

from grete.errors import ConfigError
from grete.swarm import probes, verdicts
from grete.swarm.boards import Boards
from grete.swarm.facts import NodeFacts, Phase
from grete.swarm.http1 import Request
from grete.swarm.probes import ProbeServer
from grete.swarm.report import Group
from grete.swarm.status import Status
from tests.unit.exposed import Exposed
from tests.unit.swarms import overdue, status, steady, talk
from tests.unit.test_swarm_http import split


def node(phase: Phase, number: int = 1, now: float = 100.0, **facts: Any) -> NodeFacts:
    one = steady(number, now)
    one.phase, one.since = phase, now - 3.0
    for name, value in facts.items():
        setattr(one, name, value)
    return one


KILLED = node(Phase.KILLED, why_stopping="handler", kill_at=94.9)
GONE: dict[str, Any] = {"pid": None, "forked_at": None}


@pytest.mark.parametrize(
    ("told", "live", "ready"),
    [
        (status(steady(0), steady(1)), True, True),
        (status(steady(0), node(Phase.BACKOFF, next_at=104.5, **GONE)), True, True),
        (status(steady(0), node(Phase.STOPPING, why_stopping="memory", kill_at=101.0)), True, True),
        (status(node(Phase.STARTING)), True, False),
        (status(node(Phase.UNSTEADY)), True, False),
        (status(node(Phase.BACKOFF, looping=False, **GONE)), True, False),
        (status(steady(0), stopping=True), True, False),
        (status(steady(0), quieted=True), True, True),
        (status(steady(0), KILLED), False, True),
        (status(steady(0), node(Phase.KILLED, kill_at=95.1)), True, True),
        (status(steady(0), node(Phase.BACKOFF, looping=True, **GONE)), True, True),
        (status(node(Phase.BACKOFF, 0, looping=True, **GONE), node(Phase.DOWN, looping=True, **GONE)), False, False),
    ],
)
def test_when_exactly_the_probes_fail(told: Status, live: bool, ready: bool) -> None:
    assert verdicts.live(told)["ok"] is live
    assert verdicts.ready(told)["ok"] is ready
    for path, expected in (("/livez", live), ("/readyz", ready), ("/", True), ("/metrics", True)):
        assert probes.answer(Request("GET", path), lambda: told, Boards()).status == (200 if expected else 503)


def test_a_failing_one_says_who_and_since_when() -> None:
    told = status(steady(0), KILLED)
    assert verdicts.live(told)["why"] == f"node 1 (process {KILLED.pid}) is still there 5 s after SIGKILL was due"
    (problem,) = verdicts.live(told)["problems"]
    assert (problem["node"], problem["reason"], problem["state"]) == (1, "unkillable", "killed")


@pytest.mark.parametrize(
    ("facts", "reason", "text"),
    [
        (node(Phase.STOPPING, why_stopping="memory"), "memory", "node 1 has been stopping for 3.0 s: memory"),
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
def test_what_is_amiss_with_a_node(facts: NodeFacts, reason: str, text: str) -> None:
    (problem,) = verdicts.problems(status(steady(0), facts))
    assert (problem["node"], problem["reason"], problem["text"], problem["seconds"]) == (1, reason, text, 3.0)


def test_a_late_handler_is_named_with_its_place() -> None:
    (problem,) = verdicts.problems(status(steady(0, overdue=(overdue(),))))
    assert problem == {
        "node": 0,
        "state": "steady",
        "reason": "handler",
        "seconds": 312.5,
        "limit": 300.0,
        "handler": "Orders.consume",
        "topic": "orders",
        "partition": 3,
        "text": "node 0: Orders.consume has run for 312.5 s on orders[3], and its handler_timeout is 300 s",
    }


def test_a_held_gil_a_stalled_lane_and_a_waiting_group_are_named() -> None:
    told = status(steady(0, gil_wait=7.25, stalled=("orders[1]", "orders[3]")))
    other, oldest, gil = verdicts.problems(told)
    assert other["text"] == "node 0: a call on orders[1] has run longer than its stall_after"
    assert oldest["text"] == "node 0: Orders.consume has run for 12.5 s on orders[3], longer than its stall_after"
    assert (oldest["handler"], oldest["topic"], oldest["partition"]) == ("Orders.consume", "orders", 3)
    assert gil["text"] == "node 0: somebody has held the GIL for 7.2 s"
    (once,) = verdicts.problems(status(steady(0, overdue=(overdue(),), stalled=("orders[3]",))))
    assert once["reason"] == "handler", "what is late is stalled, too: that is said once"
    waiting = steady(0, groups=(Group("shop", "joining", 9.0, False, None, 0, None),))
    waiting.phase, waiting.since = Phase.UNSTEADY, 91.0
    (problem,) = verdicts.problems(status(waiting))
    assert problem["text"] == 'node 0 has not been steady for 9.0 s: group "shop" is joining'


def test_the_report_of_a_process_that_is_gone_says_nothing() -> None:
    told = status(node(Phase.BACKOFF, **GONE))["nodes"][0]
    assert (told["rss"], told["lanes"], told["oldest"], told["report_age"], told["uptime"]) == (
        None,
        {},
        None,
        None,
        None,
    )
    told = status(steady())["nodes"][0]
    assert (told["uptime"], told["report_age"], told["seconds"], told["lag"]) == (10.0, 0.5, 8.0, 1200)
    assert told["oldest"] == {"handler": "Orders.consume", "topic": "orders", "partition": 3, "seconds": 12.5}


@pytest.fixture
def opened() -> Any:
    servers: list[ProbeServer] = []

    def make(host: str, answer: Callable[[], Status] = lambda: status(steady())) -> ProbeServer:
        made = probes.open_server((host, 0), lambda memory: answer(), Boards())
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
        "1 of 1 nodes are steady",
        "application/json",
    )
    status_, headers, body = get(server, b"HEAD /livez HTTP/1.0\r\n\r\n")
    assert (status_, body) == (200, None)
    status_, headers, body = get(server, b"POST /livez HTTP/1.0\r\nContent-Length: 3\r\n\r\nabc")
    assert (status_, headers["Allow"]) == (405, "GET, HEAD")
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
    assert Exposed(body).one("grete_swarm_nodes", state="steady") == 1


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
            probes.open_server(("127.0.0.1", port), lambda memory: status(), Boards())
    with pytest.raises(ConfigError, match=r"cannot listen at 203\.0\.113\.1:80: Cannot assign requested address"):
        probes.open_server(("203.0.113.1", 80), lambda memory: status(), Boards())
    with pytest.raises(ConfigError, match=r"cannot listen at nowhere\.invalid:80: "):
        probes.open_server(("nowhere.invalid", 80), lambda memory: status(), Boards())
    with pytest.raises(ConfigError, match="cannot listen at"):
        probes.open_server(("x" * 70 + ".y", 80), lambda memory: status(), Boards())
    assert probes.open_server(None, lambda memory: status(), Boards()) is None
