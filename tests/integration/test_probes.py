"""`grete run --probes`: what a process says of itself, from outside, while it can say nothing in Python."""

from __future__ import annotations

import contextlib
import socket
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.integration.app_process import AppRun
from tests.kafka import KafkaCluster, eventually, fill
from tests.kafka.ports import ReservedPort
from tests.kafka.processes import end, spawn
from tests.unit.probe_client import Response, probe_until, send_probe

pytestmark = pytest.mark.kafka
GRIPPING = "tests.integration.apps.gil_holder:app"


def value(metrics: str, name: str, **labels: str) -> float:
    """Of one series."""
    for family in text_string_to_metric_families(metrics):
        for sample in family.samples:
            if sample.name == name and sample.labels == labels:
                return sample.value
    raise AssertionError(f"no {name} {labels} in {metrics}")


def start(kafka: KafkaCluster, topic: str, group: str, directory: Path, seconds: float) -> AppRun:
    environment = {
        "GRIPPING_SERVERS": kafka.bootstrap_servers,
        "GRIPPING_TOPIC": topic,
        "GRIPPING_GROUP": group,
        "GRIPPING_SECONDS": seconds,
    }
    return AppRun(GRIPPING, directory, environment, ["--probes", "127.0.0.1:0"])


def where(run: AppRun) -> str:
    run.until_event("probes")
    address: str = next(row["address"] for row in run.seen if row["event"] == "probes")
    return address


def named(answer: Response, reason: str) -> bool:
    """Whether this problem is there, with the lane and the handler that it comes from."""
    for problem in answer.body["problems"]:
        if problem["reason"] == reason and problem["seconds"] > problem["limit"]:
            job = problem["jobs"][0] if reason == "gil" else problem
            return (job["handler"], job["partition"]) == ("Gripping.consume", 0) and job["seconds"] > 1.0
    return False


def test_it_is_ready_once_it_has_its_partitions(kafka: KafkaCluster, topic: str, group: str, tmp_path: Path) -> None:
    kafka.create_topic(topic, partitions=3)
    fill(kafka.bootstrap_servers, topic, 300, partitions=3)
    with start(kafka, topic, group, tmp_path, 0.0) as run:
        address = where(run)
        before = probe_until(address, "/readyz", lambda answer: answer.status == 200, "readiness")
        assert {answer.status for answer in before[:-1]} <= {503}
        assert send_probe(address, "/livez").reasons == []
        done = {"handler": "Gripping.consume"}
        run.until(
            lambda: value(send_probe(address, "/metrics").body, "grete_records_total", **done) == 300,
            30.0,
            "all are processed",
        )
        metrics = send_probe(address, "/metrics").body
        assert value(metrics, "grete_partitions", group=group) == 3
        assert value(metrics, "grete_group_ready", group=group) == 1
        assert value(metrics, "grete_ready") == 1
        for partition in "012":
            assert value(metrics, "grete_lag_records", **done, topic=topic, partition=partition) == 0
        assert run.stop() == 0
        with pytest.raises(OSError, match="refused"):
            socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2])))


@contextlib.contextmanager
def plain_server() -> Iterator[str]:
    """Python's own HTTP server, with nothing to do: what an answer takes here and now."""
    port = ReservedPort()
    words = [sys.executable, "-m", "http.server", "--bind", "127.0.0.1", str(port.number)]
    process = spawn(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def listens() -> bool:
        with contextlib.suppress(ConnectionRefusedError):
            return send_probe(f"127.0.0.1:{port.number}", "/").status == 200
        return False

    try:
        eventually(listens, 30.0, "a plain server")
        yield f"127.0.0.1:{port.number}"
    finally:
        end(process)
        port.release()


def percentiles(what: str, seconds: list[float]) -> str:
    """Percentiles."""
    times = [second * 1000 for second in seconds]
    at = statistics.quantiles(times, n=100)
    return f"{what}: {len(times)} answers, p50 {at[49]:.2f} ms, p99 {at[98]:.2f} ms, max {max(times):.2f} ms"


def until_handler_gil_and_end(address: str, topic: str, between: Callable[[], object] = lambda: None) -> list[Response]:
    """All answers of `/livez` while the GIL is held, and what they have to say."""
    answers = probe_until(address, "/livez", lambda answer: named(answer, "handler"), "overdue call", between=between)
    assert answers[-1].status == 503
    text = f"Gripping.consume has run for 1.0 s on {topic}[0], and its handler_timeout is 1 s"
    assert answers[-1].body["why"] == text
    answers += probe_until(address, "/livez", lambda answer: named(answer, "gil"), "GIL held too long", between=between)
    assert value(send_probe(address, "/metrics").body, "grete_gil_wait_seconds") > 2.0
    assert value(send_probe(address, "/metrics").body, "grete_live") == 0
    answers += probe_until(address, "/livez", lambda answer: answer.status == 200, "end of it", between=between)
    assert all(answer.reasons[0] == "handler" for answer in answers if answer.status == 503)
    # Who had waited for the GIL would have answered once, at the end; a machine that is busy may delay one or two.
    assert statistics.median(answer.seconds for answer in answers) < 1.0
    return answers


def test_it_answers_while_a_handler_holds_the_gil_in_a_c_call(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    with start(kafka, topic, group, tmp_path, 3.5) as run:
        address = where(run)
        run.until_event("holds")
        until_handler_gil_and_end(address, topic)
        run.until_event("lets go")
        eventually(lambda: kafka.admin.lag(group, [topic]) == 0, 30.0, "all is committed")
        assert send_probe(address, "/livez").reasons == []
        assert run.stop() == 0


@pytest.mark.soak
def test_how_long_answers_take_while_the_gil_is_held_for_thirty_seconds(
    kafka: KafkaCluster, topic: str, group: str, tmp_path: Path
) -> None:
    kafka.create_topic(topic)
    fill(kafka.bootstrap_servers, topic, 10)
    with plain_server() as plain, start(kafka, topic, group, tmp_path, 30.0) as run:
        address = where(run)
        run.until_event("holds")
        beside: list[float] = []
        answers = until_handler_gil_and_end(address, topic, lambda: beside.append(send_probe(plain, "/livez").seconds))
        print()
        print(percentiles("the GIL is held", [answer.seconds for answer in answers]))
        print(percentiles("an idle http.server beside it", beside))
        assert run.stop() == 0
