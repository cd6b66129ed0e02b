"""Processes that log in with tokens: forks, and a process that is stopped for longer than its token lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from grete.broker import Broker
from grete.client import Producer
from tests.integration.sasl_cluster import token
from tests.kafka import eventually
from tests.kafka.jars import ROOT

pytestmark = pytest.mark.kafka

SETTINGS = """
import os, sys, threading
import grete
from grete.client import Admin
from tests.integration.sasl_cluster import token

kafka = {
    "bootstrap.servers": sys.argv[1],
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "OAUTHBEARER",
    "sasl.allow.plaintext": True,
    "sasl.oauthbearer.token.provider": lambda: token(float(sys.argv[2])),
}
"""

FORKS = (
    SETTINGS
    + """
from grete._sasl import sources

ended = threading.Event()

def register():
    while not ended.is_set():
        sources.register(len)

threading.Thread(target=register).start()
statuses = []
with Admin(kafka) as parent:
    assert "orders" in parent.topics(timeout=30)
    for _ in range(10):
        child = os.fork()
        if child == 0:
            try:
                with Admin(kafka) as own:
                    os._exit(0 if "orders" in own.topics(timeout=20) else 1)
            except BaseException as error:
                print(repr(error), file=sys.stderr, flush=True)
                os._exit(2)
        statuses.append(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        assert "orders" in parent.topics(timeout=30)
ended.set()
assert statuses == [0] * 10, statuses
"""
)

STOPPED = (
    SETTINGS
    + """
app = grete.App("stopped", kafka={**kafka, "auto.offset.reset": "earliest", "session.timeout.ms": 6000})

@app.consumer("orders")
def note(value: bytes) -> None:
    print(value.decode(), flush=True)

app.run()
"""
)


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(topics={"orders": 2}, sasl={"alice": "x"}, settings={"connections.max.reauth.ms": 2000}) as broker:
        yield broker


def test_children_of_a_fork_log_in_by_themselves(broker: Broker) -> None:
    command = [sys.executable, "-W", "ignore", "-c", FORKS, broker.bootstrap_servers, "4"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr


def test_a_process_that_was_stopped_beyond_its_token_and_its_session_goes_on(broker: Broker) -> None:
    settings = {
        "bootstrap.servers": broker.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.allow.plaintext": True,
        "sasl.oauthbearer.token.provider": token,
    }
    command = [sys.executable, "-c", STOPPED, broker.bootstrap_servers, "3"]
    with (
        Producer(settings) as producer,
        subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process,
    ):
        assert process.stdout is not None
        assert process.stderr is not None
        os.set_blocking(process.stdout.fileno(), False)
        seen = b""

        def has(number: int) -> bool:
            nonlocal seen
            seen += process.stdout.read() or b"" if process.stdout is not None else b""
            return {b"%d" % each for each in range(number)} <= set(seen.split())

        try:
            producer.produce_many("orders", [b"%d" % number for number in range(100)]).wait(30)
            eventually(lambda: has(100), 60.0, "the first records")
            process.send_signal(signal.SIGSTOP)
            end = time.monotonic() + 8.0
            for number in range(100, 200):
                producer.produce_sync("orders", b"%d" % number)
            eventually(lambda: time.monotonic() >= end, 30.0, "the end of token and session")
            process.send_signal(signal.SIGCONT)
            eventually(lambda: has(200), 60.0, "the rest")
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0, process.stderr.read()
        finally:
            process.send_signal(signal.SIGCONT)
            process.kill()
