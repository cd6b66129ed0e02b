"""All clients wait at the same time on the client's core: each uses far too little to disturb the others."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from statistics import median

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from benchmarks.common.broker import Broker
from benchmarks.common.build import ROOT
from benchmarks.common.pinning import Cores, pinned
from benchmarks.common.process import Usage, usage
from benchmarks.common.run import ClientFailedError
from tests.kafka import eventually
from tests.kafka.processes import end, spawn

TOPIC, PARTITIONS = "idle", 20


@dataclass(frozen=True)
class Client:
    """One waiting process."""

    name: str
    title: str
    command: tuple[str, ...]
    package: str


def _python(module: str) -> tuple[str, ...]:
    return (sys.executable, "-m", f"benchmarks.idle.clients.{module}")


GRETE_RUN = (str(Path(sys.executable).with_name("grete")), "run", "benchmarks.idle.clients.grete_app:app")
_clients = (
    Client("grete", "Grete, App (grete run), defaults", GRETE_RUN, "grete"),
    Client("confluent", "confluent-kafka, poll(1.0), defaults", _python("confluent"), "confluent-kafka"),
    Client("aiokafka", "aiokafka, async for, defaults", _python("aio"), "aiokafka"),
)
CLIENTS = {client.name: client for client in _clients}


@dataclass(frozen=True)
class Result:
    """Medians over the windows."""

    client: str
    title: str
    cpu_ms: float
    cpu_percent: float
    switches_per_second: float
    involuntary_per_second: float
    threads: int
    rss: int


def measure(
    broker: Broker, cores: Cores, clients: Sequence[Client], settle: float, windows: int, seconds: float
) -> list[Result]:
    """Starts all, waits until each has its partitions, lets them settle, then measures `windows` times."""
    broker.admin.create_topic(TOPIC, PARTITIONS, 1, None)
    with ExitStack() as stack:
        processes = {}
        for client in clients:
            group = f"idle-{client.name}"
            environment = {"IDLE_BOOTSTRAP": broker.bootstrap, "IDLE_TOPIC": TOPIC, "IDLE_GROUP": group}
            with pinned(cores.client):
                process = spawn(client.command, cwd=ROOT, env={**os.environ, **environment}, stdout=subprocess.DEVNULL)
            stack.callback(end, process)
            processes[client.name] = process
        for client in clients:
            wait_for_partitions(broker, processes[client.name], f"idle-{client.name}", PARTITIONS)
        # What is measured is the length of time itself: these are no waits for a condition.
        time.sleep(settle)
        samples = {client.name: [usage(processes[client.name].pid)] for client in clients}
        for _ in range(windows):
            time.sleep(seconds)
            for client in clients:
                samples[client.name].append(usage(processes[client.name].pid))
        return [_result(client, samples[client.name], seconds) for client in clients]


def wait_for_partitions(broker: Broker, process: subprocess.Popen[bytes], group: str, partitions: int) -> None:
    """Until the group, whose only member `process` is, owns them all."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})

    def owns_all() -> bool:
        if process.poll() is not None:
            raise ClientFailedError(f"{group} ended with status {process.returncode}")
        try:
            description = admin.describe_consumer_groups([group], request_timeout=2)[group].result(5)
        except KafkaException:  # no coordinator yet; asked too early, the question may also get lost
            return False
        return sum(len(member.assignment.topic_partitions) for member in description.members) == partitions

    eventually(owns_all, 90, f"{group} owns {partitions} partitions", first_wait=0.5)


def _result(client: Client, samples: list[Usage], seconds: float) -> Result:
    parts = [after.since(before) for before, after in pairwise(samples)]
    cpu = median(part.cpu_seconds for part in parts)
    return Result(
        client.name,
        client.title,
        1e3 * cpu,
        100 * cpu / seconds,
        median(part.voluntary_switches + part.involuntary_switches for part in parts) / seconds,
        median(part.involuntary_switches for part in parts) / seconds,
        parts[-1].threads,
        parts[-1].rss,
    )
