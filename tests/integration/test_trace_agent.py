"""Datadog's own test agent takes what we send, and finds nothing wrong with it."""

import json
import os
import subprocess
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from grete.instrumentation.datadog import Tracer
from tests.kafka.ports import ReservedPort
from tests.kafka.waiting import eventually

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("DDAPM_TEST_AGENT", ROOT / ".venv/agent/bin/ddapm-test-agent"))
CHECKS = "trace_count_header,meta_tracer_version_header,trace_content_length,trace_peer_service,trace_dd_service"

pytestmark = pytest.mark.skipif(not PROGRAM.exists(), reason="there is no test agent: make agent")


class Agent:
    """The agent's own questions."""

    def __init__(self, url: str, socket: Path) -> None:
        self.url, self.socket = url, socket

    def ask(self, path: str) -> Any:
        with urllib.request.urlopen(self.url + path, timeout=30) as answer:
            text = answer.read().decode()
        return json.loads(text) if text.startswith(("[", "{")) else text

    def is_up(self) -> bool:
        try:
            return bool(self.ask("/info"))
        except OSError:
            return False

    def checks(self, verdict: str) -> dict[str, int]:
        """How often each check has come to "Passed" or "Failed", where it did."""
        summary = self.ask("/test/trace_check/summary?return_all=true")
        counts = {check: counts[f"{verdict}_Checks"] for check, counts in summary.items()}
        return {check: count for check, count in counts.items() if count}

    def spans(self) -> list[dict[str, Any]]:
        return [span for trace in self.ask("/test/traces") for span in trace]


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    ports = [ReservedPort() for _ in range(4)]
    http, otlp_http, otlp_grpc, ui = (port.number for port in ports)
    folder = tmp_path_factory.mktemp("agent")
    command = [
        str(PROGRAM), "--port", str(http), "--otlp-http-port", str(otlp_http), "--otlp-grpc-port", str(otlp_grpc),
        "--web-ui-port", str(ui), "--snapshot-dir", str(folder),
        "--vcr-cassettes-directory", str(folder), "--trace-uds-socket", str(folder / "apm.socket"),
    ]  # fmt: skip
    agent = Agent(f"http://127.0.0.1:{http}", folder / "apm.socket")
    with (folder / "log").open("wb") as log:
        # Its option for the checks takes each letter for one.
        environment = {**os.environ, "ENABLED_CHECKS": CHECKS}
        environment.pop("PYTHONPATH", None)
        process = subprocess.Popen(command, stdout=log, stderr=log, cwd=folder, env=environment)
        try:
            eventually(agent.is_up, 60, lambda: (folder / "log").read_text())
            yield agent
        finally:
            process.terminate()
            process.wait(30)
            for port in ports:
                port.release()


@pytest.fixture
def tracer(agent: Agent) -> Iterator[Tracer]:
    agent.ask("/test/session/clear")
    tracer = Tracer("orders", env="test", version="1", agent=agent.url)
    yield tracer
    tracer.close()


def test_it_finds_nothing_wrong(agent: Agent, tracer: Tracer) -> None:
    far = tracer.extract([("traceparent", b"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")])
    assert far is not None
    with tracer.start("job", resource="orders[0]", span_type="worker") as job:
        job.set_tag("topic", "orders")
        job.set_metric("records", 20)
        job.link(far, {"record": "orders[0]@7"})
        with pytest.raises(ValueError, match="out of stock"), tracer.start("book", service="ledger"):
            raise ValueError("out of stock")
        job.set_error()
    with tracer.start("receive", parent=far):
        pass
    assert tracer.flush(30)
    assert tracer.statistics()["sent"] == 3
    assert agent.checks("Failed") == {}
    assert {"trace_count_header", "meta_tracer_version_header", "trace_content_length"} <= set(agent.checks("Passed"))
    by_name = {span["name"]: span for span in agent.spans()}
    assert by_name["book"]["parent_id"] == by_name["job"]["span_id"]
    assert by_name["book"]["service"] == "ledger"
    assert by_name["job"]["error"] == by_name["book"]["error"] == 1
    assert by_name["book"]["meta"]["error.message"] == "out of stock"
    assert by_name["job"]["metrics"]["records"] == 20
    assert by_name["job"]["span_links"][0]["attributes"] == {"record": "orders[0]@7"}
    assert by_name["receive"]["trace_id"] == 0xA3CE929D0E0E4736
    assert by_name["receive"]["meta"]["_dd.p.tid"] == "4bf92f3577b34da6"


def test_many_traces_of_many_threads_arrive_once(agent: Agent, tracer: Tracer) -> None:
    for _ in range(3_000):
        with tracer.start("job", parent=None) as job:
            job.set_tag("text", "é\0\ud800" * 20)
            tracer.start("step").finish()
    assert tracer.flush(60)
    assert agent.checks("Failed") == {}
    ids = [span["span_id"] for span in agent.spans()]
    assert len(ids) == len(set(ids)) == 6_000


def test_its_rates_are_honoured(agent: Agent, tracer: Tracer) -> None:
    rates = json.dumps({"service:,env:": 1.0, "service:orders,env:test": 0.0})
    agent.ask("/test/session/start?agent_sample_rate_by_service=" + urllib.parse.quote(rates))
    tracer.start("learn").finish()
    assert tracer.flush(30)
    tracer.start("dropped").finish()
    tracer.start("kept", service="others").finish()
    assert tracer.flush(30)
    assert agent.checks("Failed") == {}
    priorities = {span["name"]: span["metrics"]["_sampling_priority_v1"] for span in agent.spans()}
    assert priorities == {"learn": 1, "dropped": 0, "kept": 1}


def test_it_listens_on_a_socket(agent: Agent, tracer: Tracer) -> None:
    there = Tracer("orders", agent=f"unix://{agent.socket}")
    there.start("by socket").finish()
    assert there.close(30)
    assert there.statistics()["sent"] == 1
    assert agent.checks("Failed") == {}
    assert [span["name"] for span in agent.spans()] == ["by socket"]


def test_its_checks_do_find_something(agent: Agent, tracer: Tracer) -> None:
    headers = {"Content-Type": "application/msgpack", "X-Datadog-Trace-Count": "7"}
    request = urllib.request.Request(agent.url + "/v0.4/traces", b"\x90", headers, method="PUT")
    with pytest.raises(urllib.error.HTTPError, match="400"):
        urllib.request.urlopen(request, timeout=30)
    assert "trace_count_header" in agent.checks("Failed")
    agent.ask("/test/trace_check/clear?clear_all=true")
    assert agent.checks("Failed") == {}
