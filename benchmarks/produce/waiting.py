"""A sync send while the broker hangs: a waiting caller should cost nothing until the answer comes."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.common.build import ROOT
from benchmarks.common.pinning import pinned
from benchmarks.common.process import Usage, usage
from benchmarks.common.progress import say
from benchmarks.common.run import ClientFailedError
from tests.kafka.processes import end, spawn

from .driver import Driver
from .rows import Waited

SECONDS = 5.0
# From the moment when the client says that it sends: until its request has been written for sure.
SETTLE = 0.5


@dataclass(frozen=True)
class Waiter:
    """A way of waiting that clients/waiting.py knows."""

    name: str
    title: str


_waiters = (
    Waiter("grete", "Grete, produce_sync"),
    Waiter("confluent-flush", "confluent-kafka, produce + flush()"),
    Waiter("confluent-poll", "confluent-kafka, produce + poll(1.0) until reported"),
)
WAITERS = {waiter.name: waiter for waiter in _waiters}


def measure(driver: Driver, waiter: Waiter, hang: Callable[[], None], go_on: Callable[[], None]) -> None:
    """`hang` stops the broker from answering, `go_on` lets it answer."""
    try:
        driver.found.waited.append(_measure(driver, waiter, hang, go_on))
    except ClientFailedError as error:
        driver.found.failures.append(f"{waiter.name}, waiting: {error}")
        say(f"  FAILED {driver.found.failures[-1]}")


def _measure(driver: Driver, waiter: Waiter, hang: Callable[[], None], go_on: Callable[[], None]) -> Waited:
    with driver.topic(f"waiting-{waiter.name}", 1) as topic:
        command = [sys.executable, "-m", "benchmarks.produce.clients.waiting", waiter.name]
        with pinned(driver.cores.client):
            process = spawn(
                [*command, driver.broker.bootstrap, topic],
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        try:
            waited = _watch(process, waiter, hang, go_on)
        finally:
            go_on()
            end(process)
    say(f"  waiting {waiter.name}: {waited.switches} context switches in {SECONDS:g} s")
    return waited


def _watch(
    process: subprocess.Popen[bytes], waiter: Waiter, hang: Callable[[], None], go_on: Callable[[], None]
) -> Waited:
    assert process.stdin is not None
    assert process.stdout is not None
    _expect(process.stdout.readline(), b"ready\n")
    hang()
    process.stdin.write(b"send\n")
    process.stdin.flush()
    _expect(process.stdout.readline(), b"sending\n")
    # What is measured is the length of time itself: these are no waits for a condition.
    time.sleep(SETTLE)
    before = _usage(process)
    time.sleep(SECONDS)
    used = _usage(process).since(before)
    go_on()
    _expect(process.stdout.readline(), b"acknowledged\n")
    switches = used.voluntary_switches + used.involuntary_switches
    return Waited(waiter.name, waiter.title, SECONDS, switches, used.threads, 1e3 * used.cpu_seconds)


def _usage(process: subprocess.Popen[bytes]) -> Usage:
    if process.poll() is not None:
        raise ClientFailedError("the client did not wait for its answer")
    return usage(process.pid)


def _expect(line: bytes, expected: bytes) -> None:
    if line != expected:
        raise ClientFailedError(f"the waiting client said {line!r}, not {expected!r}")
