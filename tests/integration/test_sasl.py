"""Logins by SASL: embedded brokers of the test's own, Grete's clients and foreign ones."""

from __future__ import annotations

import asyncio
import contextlib
import http.server
import json
import logging
import queue
import re
import subprocess
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import confluent_kafka
import pytest
from aiokafka import AIOKafkaProducer

import grete
from grete.broker import Broker
from grete.client import Admin, Consumer, Producer
from tests.integration.sasl_cluster import MECHANISMS, token
from tests.kafka import eventually
from tests.kafka.ports import ReservedPort
from tests.kafka.secrets import secret
from tests.unit.probe_client import send_probe

PASSWORD = secret("=cr,et \u00e9")


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with sessions of 1.5 seconds."""
    with Broker(
        topics={"orders": 2}, sasl={"alice": PASSWORD, "b=o,b": "x"}, settings={"connections.max.reauth.ms": 1500}
    ) as broker:
        yield broker


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """As `broker`, over TLS."""
    with Broker(
        topics={"orders": 2},
        sasl={"alice": PASSWORD},
        tls=tmp_path_factory.mktemp("tls"),
        settings={"connections.max.reauth.ms": 1500},
    ) as broker:
        yield broker


def settings(broker: Broker, mechanism: str, **others: object) -> dict[str, Any]:
    login: dict[str, object] = {"sasl.username": "alice", "sasl.password": PASSWORD}
    if mechanism == "OAUTHBEARER":
        login = {"sasl.oauthbearer.token.provider": token}
    return {
        "bootstrap.servers": broker.bootstrap_servers,
        "sasl.mechanism": mechanism,
        "sasl.allow.plaintext": True,
        **login,
        "security.protocol": "SASL_PLAINTEXT",
        **broker.client_settings,
        **{name.replace("_", "."): value for name, value in others.items()},
    }


@pytest.mark.parametrize("listener", ["broker", "encrypted"])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_all_clients_log_in_and_renew_their_sessions(
    request: pytest.FixtureRequest, listener: str, mechanism: str, caplog: pytest.LogCaptureFixture
) -> None:
    broker: Broker = request.getfixturevalue(listener)
    group = f"g-{mechanism}"
    with (
        Producer(settings(broker, mechanism)) as producer,
        Consumer(settings(broker, mechanism, group_id=group)) as consumer,
        Admin(settings(broker, mechanism)) as admin,
    ):
        consumer.subscribe(["orders"])
        values: list[bytes] = []
        end = time.monotonic() + 5.0
        sent = 0
        logins: set[Any] = set()
        while time.monotonic() < end or len(values) < sent:
            assert time.monotonic() < end + 30, f"{len(values)} of {sent}"
            if time.monotonic() < end:
                producer.produce_sync("orders", f"{mechanism}-{sent}".encode())
                sent += 1
            if sent % 50 == 0:  # the broker keeps its latest requests only
                logins |= {entry for entry in broker.call("requests") if "SaslHandshake" in entry}
            messages = consumer.poll(timeout=0.02)
            values += [m.value for m in messages or () if m.value and m.value.startswith(f"{mechanism}-".encode())]
        assert sorted(values) == sorted(f"{mechanism}-{number}".encode() for number in range(sent))
        assert "orders" in admin.topics()
    assert len(logins) > 8, "sessions were renewed"
    lost = [record.message for record in caplog.records if "lost" in record.message]
    assert lost == []
    exposed = [record for record in caplog.records if "without encryption" in record.message]
    assert bool(exposed) == (listener == "broker" and mechanism in ("PLAIN", "OAUTHBEARER"))
    assert PASSWORD not in caplog.text


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"sasl.password": "wr0ng"}, "check sasl.username and sasl.password"),
        ({"sasl.username": "nobody"}, "check sasl.username and sasl.password"),
        ({"security.protocol": "PLAINTEXT"}, "set security.protocol to SASL"),
    ],
)
def test_a_refused_login_is_an_error_with_the_cure(
    broker: Broker, change: dict[str, object], says: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    for mechanism in ("PLAIN", "SCRAM-SHA-512"):
        caplog.clear()
        given = {**settings(broker, mechanism, default_api_timeout_ms=1500, max_block_ms=1500), **change}
        if "security.protocol" in change:
            with Admin(given) as admin, pytest.raises(grete.AuthenticationError, match=says):
                admin.topics(timeout=10)
            with pytest.raises(grete.AuthenticationError, match=says), Producer(given) as producer:
                producer.produce_sync("orders", b"x")
            errors = [record for record in caplog.records if record.levelno >= logging.WARNING]
            assert len(errors) <= 12, [record.message for record in errors]
        else:
            with Admin(given) as admin:
                for _ in range(3):
                    with pytest.raises(grete.AuthenticationError, match=says):
                        admin.topics(timeout=10)
            with pytest.raises(grete.AuthenticationError, match=says), Producer(given) as producer:
                producer.produce_sync("orders", b"x")
            with Consumer({**given, "group.id": "g"}) as consumer:
                consumer.subscribe(["orders"])
                with pytest.raises(grete.AuthenticationError, match=says):
                    eventually(lambda: consumer.poll(timeout=0.2) and False, 10.0, "the error")
            errors = [record for record in caplog.records if "cannot log in" in record.message]
            assert 1 <= len(errors) <= 4, [record.message for record in caplog.records]
        assert says in caplog.text
        assert "wr0ng" not in caplog.text
        assert PASSWORD not in caplog.text


def test_mechanisms_and_listeners_that_do_not_fit_are_named() -> None:
    refused = pytest.raises(
        grete.AuthenticationError, match=r"does not offer sasl.mechanism PLAIN .* but SCRAM-SHA-512"
    )
    with (
        Broker(sasl={"alice": PASSWORD}, settings={"sasl.enabled.mechanisms": "SCRAM-SHA-512"}) as broker,
        Admin(settings(broker, "PLAIN")) as admin,
        refused,
    ):
        admin.topics(timeout=10)
    no_sasl = pytest.raises(grete.AuthenticationError, match="the listener does not do SASL")
    with Broker() as broker, Admin(settings(broker, "PLAIN")) as admin, no_sasl:
        admin.topics(timeout=10)


def test_a_token_that_is_refused_is_told_from_none(broker: Broker) -> None:
    garbage = settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: "no.token.here")
    with Admin(garbage) as admin, pytest.raises(grete.AuthenticationError, match="invalid_token"):
        admin.topics(timeout=10)

    def fails() -> str:
        raise RuntimeError("the identity provider is down")

    none = settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=fails)
    with Admin(none) as admin, pytest.raises(grete.AuthenticationError, match="the identity provider is down"):
        admin.topics(timeout=20)


def raises_type_error() -> str:
    return len(None)  # type: ignore[arg-type, return-value]


def divides_by_zero() -> str:
    return str(1 // 0)


def raises_value_error() -> str:
    return str(int("x"))


def gives_nothing() -> None:
    return None


def gives_an_expired_token() -> str:
    return token(life=-5)


@pytest.mark.parametrize(
    ("ahead", "says"),
    [
        (0.0, "the token is not valid for another 3[56][0-9][0-9] s: set this clock"),
        (3600.0, "the token is valid from .* until .*, and came at .* by this machine's clock"),
    ],
)
def test_clocks_that_differ_are_named_when_a_token_is_not_valid_yet(
    broker: Broker, monkeypatch: pytest.MonkeyPatch, ahead: float, says: str
) -> None:
    """The issuer's clock is an hour ahead of the broker's. `ahead`: so is this machine's."""
    monkeypatch.setattr("grete._sasl.token.time", types.SimpleNamespace(time=lambda: time.time() + ahead))
    given = settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=lambda: token(9000.0, begin=3600.0))
    with Admin(given) as admin, pytest.raises(grete.AuthenticationError, match=says):
        admin.topics(timeout=20)


@pytest.mark.parametrize(
    ("source", "says"),
    [
        (raises_type_error, "raised TypeError: object of type 'NoneType'"),
        (divides_by_zero, "raised ZeroDivisionError: "),
        (raises_value_error, "raised ValueError: invalid literal"),
        (gives_nothing, "it returned nothing instead of a token"),
        (gives_an_expired_token, "its token expired 5 s ago"),
    ],
)
def test_a_source_that_goes_on_failing_ends_the_calls_with_its_error(
    broker: Broker, source: Callable[[], object], says: str
) -> None:
    given = settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=source)
    started = time.monotonic()
    failed = pytest.raises(grete.AuthenticationError, match=says)
    with failed as caught, Producer(given) as producer:
        producer.produce_sync("orders", b"x")
    assert "correct the source of the token" in str(caught.value)
    with failed, Admin(given) as admin:
        admin.topics(timeout=30)
    with Consumer({**given, "group.id": "g"}) as consumer, failed:
        consumer.subscribe(["orders"])
        eventually(lambda: consumer.poll(timeout=0.2) and False, 20.0, "the error")
    assert time.monotonic() - started < 20


def test_a_source_that_hangs_ends_the_calls_after_its_time_limit(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("grete._sasl.refresher._HANGS_AFTER", 1.0)
    monkeypatch.setattr("grete._sasl.refresher._CHECK_INTERVAL", 0.5)
    released = threading.Event()

    def hangs() -> str:
        released.wait(60)
        return token()

    with Admin(settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=hangs)) as admin:
        with pytest.raises(grete.AuthenticationError, match="has not answered for"):
            admin.topics(timeout=30)
        released.set()


def test_an_app_whose_source_of_tokens_fails_ends_at_its_start(broker: Broker) -> None:
    app = grete.App("no-token", kafka=settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=divides_by_zero))

    @app.consumer("orders")
    def handle(messages: grete.Messages) -> None:
        raise AssertionError(messages)

    with pytest.raises(grete.AuthenticationError, match="raised ZeroDivisionError"), app.running():
        eventually(lambda: app.error is not None, 20.0, "the end of the App")


def switches(name: str) -> int:
    """How often the threads of this name have begun to wait."""
    count = 0
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(FileNotFoundError):
            if (task / "comm").read_text().strip() == name:
                status = (task / "status").read_text()
                count += int(re.findall(r"^voluntary_ctxt_switches:\s+(\d+)", status, re.MULTILINE)[0])
    return count


def test_a_client_sleeps_until_the_first_token_comes_and_wakes_then(broker: Broker) -> None:
    released, results = threading.Event(), queue.SimpleQueue[list[str]]()

    def slow() -> str:
        released.wait(60)
        return token()

    with Admin(settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=slow)) as admin:
        caller = threading.Thread(target=lambda: results.put(admin.topics(timeout=30)))
        caller.start()
        before, begin = eventually(lambda: switches("grete-admin"), 10.0, "the network thread"), time.monotonic()
        caller.join(1.0)  # the call waits for the token
        assert caller.is_alive()
        assert switches("grete-admin") - before < 20 * (time.monotonic() - begin), "it polls for the token"
        released.set()
        assert "orders" in results.get(timeout=5)
        caller.join()


@contextlib.contextmanager
def token_endpoint(port: int) -> Iterator[dict[str, int]]:
    """A token endpoint on this port, which answers with the `status` in the dict."""
    state = {"status": 503, "requests": 0}

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            state["requests"] += 1
            self.send_response(state["status"])
            self.end_headers()
            self.wfile.write(json.dumps({"access_token": token(), "expires_in": 600}).encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield state
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_clients_start_while_their_token_endpoint_is_down_and_recover(
    broker: Broker, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    reserved, probes = ReservedPort(), ReservedPort()
    address = f"{probes.host}:{probes.number}"
    kafka = {
        **settings(broker, "PLAIN"),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.oauthbearer.token.endpoint.url": f"http://127.0.0.1:{reserved.number}/token",
        "sasl.oauthbearer.client.id": "shop",
        "sasl.oauthbearer.client.secret": "hush",
        "auto.offset.reset": "earliest",
    }
    del kafka["sasl.username"], kafka["sasl.password"]
    seen: list[bytes] = []
    app = grete.App("endpoint-down", kafka=kafka, probes=address)

    @app.consumer("orders")
    def handle(messages: grete.Messages) -> None:
        seen.extend(message.value or b"" for message in messages)

    def failing(says: str) -> bool:
        answer = send_probe(address, "/readyz")
        named = any(says in text for text in app.statistics()["login_failures"])
        return named and answer.status == 503 and says in str(answer.body)

    with contextlib.ExitStack() as stack:
        stack.callback(reserved.release)
        stack.callback(probes.release)
        stack.enter_context(app.running())
        producer = stack.enter_context(Producer(kafka))
        admin = stack.enter_context(Admin(kafka))
        eventually(lambda: failing("it does not answer"), 30.0, "the failure")
        with pytest.raises(grete.GreteError, match="it does not answer"):
            admin.topics(timeout=1.5)
        with token_endpoint(reserved.number) as endpoint:
            eventually(lambda: failing("it answers 503"), 60.0, "the other failure")
            assert app.error is None
            asked, begin = endpoint["requests"], time.monotonic()
            with pytest.raises(grete.GreteError, match="it answers 503"):
                admin.topics(timeout=3)
            assert endpoint["requests"] - asked <= time.monotonic() - begin, "the source is asked with a backoff"
            endpoint["status"] = 200
            assert producer.produce_sync("orders", b"the endpoint is back", timeout=60.0).offset is not None
            assert "orders" in admin.topics(timeout=60)
            eventually(lambda: b"the endpoint is back" in seen, 60.0, "the record")
            assert send_probe(address, "/readyz").status == 200
            assert app.statistics()["login_failures"] == []
    errors = [record.message for record in caplog.records if record.levelno >= logging.ERROR]
    assert len([text for text in errors if "gives no token" in text and "the source is asked again" in text]) <= 2, (
        errors
    )
    assert "hush" not in caplog.text


def test_a_source_that_recovers_lets_a_waiting_call_succeed(broker: Broker) -> None:
    calls: list[int] = []

    async def recovers() -> str:
        calls.append(1)
        if len(calls) < 3:
            raise OSError("down")
        return token()

    with Admin(settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=recovers)) as admin:
        assert "orders" in admin.topics(timeout=30)


def test_confluent_kafka_logs_in(broker: Broker) -> None:
    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER"):
        config: dict[str, Any] = {
            "bootstrap.servers": broker.bootstrap_servers,
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanisms": mechanism,
        }
        if mechanism == "OAUTHBEARER":
            config["oauth_cb"] = lambda _: (token(), time.time() + 600)
        else:
            config |= {"sasl.username": "alice", "sasl.password": PASSWORD}
        failures: list[object] = []

        def delivered(error: object, _: object, failures: list[object] = failures) -> None:
            failures.append(error)

        producer = confluent_kafka.Producer(config)
        producer.produce("orders", b"confluent", on_delivery=delivered)
        assert producer.flush(30) == 0
        assert failures == [None], mechanism


def test_aiokafka_logs_in(broker: Broker) -> None:
    async def produce(mechanism: str) -> None:
        producer = AIOKafkaProducer(
            bootstrap_servers=broker.bootstrap_servers,
            security_protocol="SASL_PLAINTEXT",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
        )
        await producer.start()
        try:
            await producer.send_and_wait("orders", b"aiokafka")
        finally:
            await producer.stop()

    for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"):
        asyncio.run(produce(mechanism))


def test_an_app_and_the_commands_log_in(broker: Broker) -> None:
    seen: list[bytes] = []
    kafka = settings(broker, "SCRAM-SHA-512", auto_offset_reset="earliest")
    app = grete.App("sasl-app", kafka=kafka)

    @app.consumer("orders")
    def handle(messages: grete.Messages) -> None:
        seen.extend(message.value or b"" for message in messages)

    with Producer(kafka) as producer:
        producer.produce_sync("orders", b"for the App")
    with app.running():
        eventually(lambda: b"for the App" in seen, 30.0, "the record")
    words = [argument for name, value in kafka.items() for argument in ("--kafka", f"{name}={value}")]
    words = [word.replace("=True", "=true") for word in words]
    listed = subprocess.run(
        [sys.executable, "-m", "grete", "topics", "list", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "orders" in listed.stdout, listed.stderr
    assert PASSWORD not in listed.stderr


def test_statistics_name_a_failed_login_until_one_succeeds(broker: Broker) -> None:
    """The broker's sessions last for one second, so that connections log in again with the token of the moment."""
    good = True

    def provide() -> tuple[str, float]:
        return (token() if good else "no.good"), time.time() + 1.5

    given = settings(broker, "OAUTHBEARER", sasl_oauthbearer_token_provider=provide)
    with Producer(given) as producer, Consumer({**given, "group.id": "statistics"}) as consumer:
        consumer.subscribe(["orders"])
        producer.produce_sync("orders", b"x")
        eventually(consumer.assignment, 20.0, "the assignment")
        assert consumer.statistics()["login_failure"] is None
        assert producer.statistics()["login_failure"] is None
        good = False

        def failures() -> list[str]:
            producer.produce("orders", b"x")
            consumer.poll(timeout=0.05)
            found = [client.statistics()["login_failure"] for client in (producer, consumer)]
            return found if all(found) else []

        for failure in eventually(failures, 30.0, "a failure of both clients"):
            assert failure.startswith("cannot log in to 127.0.0.1:")
            assert "the token has expired, or the broker does not accept its issuer" in failure
        good = True

        def recovered() -> bool:
            producer.produce("orders", b"x")
            consumer.poll(timeout=0.05)
            return not any(client.statistics()["login_failure"] for client in (producer, consumer))

        eventually(recovered, 30.0, "logins that succeed")
