"""Datadog's own test agent as a process, and its questions."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kafka.ports import ReservedPort
from tests.kafka.waiting import eventually

ROOT = Path(__file__).parents[2]
PROGRAM = Path(os.environ.get("DDAPM_TEST_AGENT", ROOT / ".venv/agent/bin/ddapm-test-agent"))
CHECKS = "trace_count_header,meta_tracer_version_header,trace_content_length,trace_peer_service,trace_dd_service"

needs_agent = pytest.mark.skipif(not PROGRAM.exists(), reason="there is no test agent: make agent")


class Agent:
    """One that runs."""

    def __init__(self, url: str, otlp_url: str, socket: Path) -> None:
        self.url, self.otlp_url, self.socket = url, otlp_url, socket

    def ask(self, path: str) -> Any:
        return _get(self.url + path)

    def is_up(self) -> bool:
        try:
            return bool(self.ask("/info"))
        except OSError:
            return False

    def checks(self, outcome: str) -> dict[str, int]:
        """How often each check has come to "Passed" or "Failed", where it did."""
        summary = self.ask("/test/trace_check/summary?return_all=true")
        counts = {check: counts[f"{outcome}_Checks"] for check, counts in summary.items()}
        return {check: count for check, count in counts.items() if count}

    def spans(self) -> list[dict[str, Any]]:
        return [span for trace in self.ask("/test/traces") for span in trace]

    def otlp(self) -> list[dict[str, Any]]:
        """Requests that its collector's port received, decoded: one dict each."""
        requests: list[dict[str, Any]] = _get(self.otlp_url + "/test/session/traces")
        return requests


def _get(url: str) -> Any:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    return json.loads(text) if text.startswith(("[", "{")) else text


@contextlib.contextmanager
def running_agent(folder: Path) -> Iterator[Agent]:
    """Runs it, with its files in this folder."""
    ports = [ReservedPort() for _ in range(4)]
    http, otlp_http, otlp_grpc, ui = (port.number for port in ports)
    command = [
        str(PROGRAM), "--port", str(http), "--otlp-http-port", str(otlp_http), "--otlp-grpc-port", str(otlp_grpc),
        "--web-ui-port", str(ui), "--snapshot-dir", str(folder),
        "--vcr-cassettes-directory", str(folder), "--trace-uds-socket", str(folder / "apm.socket"),
    ]  # fmt: skip
    agent = Agent(f"http://127.0.0.1:{http}", f"http://127.0.0.1:{otlp_http}", folder / "apm.socket")
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
