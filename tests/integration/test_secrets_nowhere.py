"""What a process reports of itself while it logs in, is refused and crashes: nothing has the password.

`tests/secret_check.py` reads the output of the process and all files in `tmp_path`; here is what it finds them with.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from grete.broker import Broker
from grete.client import Admin, Producer
from tests.integration.app_process import AppRun
from tests.integration.commands import GRETE
from tests.kafka.jars import ROOT
from tests.kafka.secrets import secret
from tests.unit.fake_agent import FakeAgent

pytestmark = pytest.mark.kafka

REPORTING = "tests.integration.apps.reporting:app"
PASSWORD = secret("=of alice")


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics=["orders", "orders.dlq"], sasl={"alice": PASSWORD}) as broker:
        yield broker


@pytest.fixture
def agent() -> Iterator[FakeAgent]:
    agent = FakeAgent()
    yield agent
    agent.close()


def environment(broker: Broker, password: str = PASSWORD, mechanism: str = "SCRAM-SHA-512") -> dict[str, str]:
    return {
        "GRETE_KAFKA_BOOTSTRAP_SERVERS": broker.bootstrap_servers,
        "GRETE_KAFKA_SECURITY_PROTOCOL": "SASL_PLAINTEXT",
        "GRETE_KAFKA_SASL_MECHANISM": mechanism,
        "GRETE_KAFKA_SASL_ALLOW_PLAINTEXT": "true",
        "GRETE_KAFKA_SASL_USERNAME": "alice",
        "GRETE_KAFKA_SASL_PASSWORD": password,
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_process_that_is_refused(tmp_path: Path, broker: Broker, mechanism: str) -> None:
    wrong = environment(broker, secret("wrong"), mechanism)
    with AppRun(REPORTING, tmp_path, wrong) as run:
        assert run.wait(60) != 0
        assert "broker.login_failed" in run.output
        assert "AuthenticationError" in run.output


def test_a_process_that_works_and_crashes(
    tmp_path: Path, broker: Broker, agent: FakeAgent, capsys: pytest.CaptureFixture[str]
) -> None:
    login = environment(broker)
    settings = {name.removeprefix("GRETE_KAFKA_").lower().replace("_", "."): value for name, value in login.items()}
    with Admin(settings) as admin, Producer(settings) as producer:
        print(repr(admin), repr(producer), vars(admin), vars(producer))
        for value in (b"good", b"bad"):
            producer.produce_sync("orders", value)
        print(producer.statistics())
    assert "Producer" in capsys.readouterr().out
    with AppRun(REPORTING, tmp_path, {**login, "REPORTING_AGENT": agent.url}, ["--probes", "127.0.0.1:0"]) as run:
        run.until(lambda: "consumer.dead_letter" in run.output, 60, "the dead letter")
        run.until(lambda: agent.spans, 60, "spans")
        address = re.search(r"'event' 'app\.probes' .*?(127\.0\.0\.1:[0-9]+)", run.output)
        assert address is not None, run.output[-4000:]
        for path in ("metrics", "readyz", "livez"):
            try:
                with urllib.request.urlopen(f"http://{address[1]}/{path}", timeout=30) as response:
                    body = response.read()
            except urllib.error.HTTPError as error:
                body = error.read()
            (tmp_path / f"{path}.log").write_bytes(body)
        os.kill(run.pid, signal.SIGTTIN)
        run.until(lambda: "most recent call first" in run.output, 30, "the stacks")
        os.kill(run.pid, signal.SIGABRT)
        run.wait(30)
    (tmp_path / "spans.log").write_text(json.dumps([*agent.spans], default=repr))
    assert "grete_" in (tmp_path / "metrics.log").read_text()


@pytest.mark.parametrize(
    "words",
    [["info", REPORTING], ["info", REPORTING, "--json"], ["doctor", REPORTING], ["doctor", REPORTING, "--json"]],
)
def test_what_commands_say_of_settings(broker: Broker, words: list[str]) -> None:
    command = [GRETE, *words]
    env = {**os.environ, **environment(broker)}
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    assert "settings" in done.stdout or "sasl.password" in done.stdout, done.stdout
