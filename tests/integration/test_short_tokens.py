"""Tokens of seconds and sessions of two seconds under full load; sources of tokens that fail meanwhile.

`TOKEN_SECONDS` is the length of the long test.
"""

from __future__ import annotations

import itertools
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from grete.broker import Broker
from tests.integration.checked_load import PARTITIONS, CheckedLoad
from tests.integration.sasl_cluster import SaslCluster, token
from tests.kafka import chosen, eventually
from tests.kafka.certificates import Authority
from tests.kafka.ports import ReservedPort
from tests.kafka.waiting import Deadline
from tests.unit.probe_client import send_probe

pytestmark = pytest.mark.kafka

LIFE = 5.0
SESSION_MS = 2000
# Ten minutes of records would fill the memory of an embedded broker.
SMALL = {"log.retention.bytes": 64 << 20, "log.segment.bytes": 16 << 20, "log.retention.check.interval.ms": 5000}
TOPICS = ("short", "short-idle", "steady", "steady-idle")


def short() -> str:
    return token(LIFE)


def steady() -> str:
    return token(24 * 3600.0)


def settings(servers: str, provider: object) -> dict[str, Any]:
    return {
        "bootstrap.servers": servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.allow.plaintext": True,
        "sasl.oauthbearer.token.provider": provider,
    }


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[tuple[str, str]]:
    """Brokers with sessions of two seconds, and with sessions that last as long as their token."""
    with ExitStack() as stack:
        if chosen().kind == "apache":
            authority = Authority(tmp_path, "Kafka CA")
            cluster = stack.enter_context(SaslCluster(authority, authority.sign("broker"), SESSION_MS))
            for topic in TOPICS:
                cluster.create_topic(topic, partitions=PARTITIONS)
            yield cluster.sasl_servers, cluster.endless_servers
        else:
            topics = dict.fromkeys(TOPICS, PARTITIONS)
            renewing, endless = (
                stack.enter_context(Broker(sasl={"alice": "x"}, topics=topics, settings=given))
                for given in ({**SMALL, "connections.max.reauth.ms": SESSION_MS}, SMALL)
            )
            yield renewing.bootstrap_servers, endless.bootstrap_servers


def run(servers: tuple[str, str], seconds: float, every: float) -> dict[str, CheckedLoad]:
    """Loads both in turn, so that what else this machine does delays both alike."""
    with (
        CheckedLoad(settings(servers[0], short), "short") as renewing,
        CheckedLoad(settings(servers[1], steady), "steady") as lasting,
    ):
        loads = {"sessions of 2 s": renewing, "sessions that last": lasting}
        for load in loads.values():
            load.run(1.0)
            load.delays.clear()
        joined = {name: load.events.copy() for name, load in loads.items()}
        end = Deadline(seconds)
        for load in itertools.cycle(loads.values()):
            load.run(every)
            if end.over:
                break
        for name, load in loads.items():
            assert load.handled == load.sent > 1000
            assert load.reconnects() == {"producer": 0, "idle": 0, "app": 0}, (name, load.lost)
            assert load.events == joined[name], "no rebalance"
            assert load.app.statistics()["login_failures"] == []
            assert load.calls > seconds / 2
    return loads


def test_sessions_are_renewed_under_load_and_nothing_notices(servers: tuple[str, str]) -> None:
    run(servers, 10.0, 2.0)


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_sessions_are_renewed_under_load_for_long(servers: tuple[str, str]) -> None:
    seconds = float(os.environ.get("TOKEN_SECONDS", "60"))
    for name, load in run(servers, seconds, 5.0).items():
        figures = ", ".join(f"{what} {figure:.2f} ms" for what, figure in load.quantiles().items())
        print(f"\n{name}: {load.handled} records; from produce to the handler: {figures}; {load.calls} calls of Admin")


class Source:
    """A source of short tokens, which fails as a test says."""

    def __init__(self) -> None:
        self.fault = ""
        self.released = threading.Event()

    def __call__(self) -> object:
        if self.fault == "fails":
            raise OSError("the identity provider is down")
        if self.fault == "hangs":
            self.released.wait(60)
        if self.fault == "object":
            return object()
        if self.fault == "refused":
            return "no.good"
        return token(3.0)


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("fails", "the identity provider is down"),
        ("hangs", "not answer"),
        ("object", "it returned an object of type object"),
        ("refused", "invalid_token"),
    ],
)
def test_a_source_that_fails_under_load_is_named_and_nothing_is_lost(
    servers: tuple[str, str],
    fault: str,
    says: str,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("grete._sasl.refresher._HANGS_AFTER", 1.0)
    monkeypatch.setattr("grete._sasl.refresher._CHECK_INTERVAL", 0.5)
    caplog.set_level(logging.INFO)
    source, port = Source(), ReservedPort()
    address = f"{port.host}:{port.number}"
    with ExitStack() as stack:
        stack.callback(port.release)
        load = stack.enter_context(CheckedLoad(settings(servers[0], source), "short", probes=address))
        load.run(1.0)
        assert send_probe(address, "/readyz").status == 200
        source.fault, load.lenient = fault, True
        with load.producing():

            def named() -> bool:
                texts = [
                    *load.app.statistics()["login_failures"],
                    load.producer.statistics()["login_failure"] or "",
                    load.idle.statistics()["login_failure"] or "",
                ]
                return len(texts) == 3 and all(says in text for text in texts)

            eventually(named, 30.0, lambda: f"the failure in {load.app.statistics()['login_failures']}")
            assert any(says in record.message for record in caplog.records if record.levelno == logging.ERROR)
            answer = send_probe(address, "/readyz")
            assert says in str(answer.body), answer
            assert not load.faults
            source.fault = ""
            source.released.set()
            eventually(lambda: not load.app.statistics()["login_failures"], 60.0, "the end of the failure")
        load.settle()
        assert send_probe(address, "/readyz").reasons == []
        # Each client logs in again after a backoff of its own.
        eventually(lambda: load.producer.statistics()["login_failure"] is None, 30.0, "the producer's login")
        assert load.producer.statistics()["not_written"] == load.producer.statistics()["unknown"] == 0
    errors = [record.message for record in caplog.records if record.levelno == logging.ERROR]
    assert len(errors) < 15, errors
