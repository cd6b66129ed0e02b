"""Asks probes, as Kubernetes does, only more often."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.kafka.waiting import Deadline


@dataclass(frozen=True, slots=True)
class Response:
    """What came, and after how many seconds."""

    status: int
    body: Any
    """Of JSON what it says, else the text."""
    seconds: float
    type: str

    @property
    def reasons(self) -> list[str]:
        """Reasons of a check's problems."""
        return [problem["reason"] for problem in self.body["problems"]]


def send_probe(address: str, path: str, method: str = "GET") -> Response:
    """One question on a connection of its own."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host.strip("[]"), int(port), timeout=60)
    began = time.perf_counter()
    try:
        connection.request(method, path)
        response = connection.getresponse()
        text = response.read().decode()
    finally:
        connection.close()
    seconds = time.perf_counter() - began
    kind = response.headers["Content-Type"]
    return Response(response.status, json.loads(text) if text and "json" in kind else text, seconds, kind)


def probe_until(
    address: str,
    path: str,
    condition: Callable[[Response], bool],
    what: str,
    every: float = 0.005,
    between: Callable[[], object] = lambda: None,
) -> list[Response]:
    """All answers up to the first one of which this is true. `every`: seconds between two questions; `between`: what
    else to do there.
    """
    deadline = Deadline(120.0)
    answers = [send_probe(address, path)]
    while not condition(answers[-1]):
        assert not deadline.over, f"no {what}: {answers[-1]}"
        between()
        time.sleep(every)  # not to wait for something: that is how often a probe asks
        answers.append(send_probe(address, path))
    return answers
