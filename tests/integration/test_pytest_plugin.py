"""The public plugin for pytest with --kafka=HOST:PORT: on `grete dev`, and on the brokers of this run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from grete.client import Admin
from tests.integration.dev_process import DevRun
from tests.kafka import KafkaCluster, chosen

PYTHON = str(Path(__file__).parents[2] / "python")

TESTS = """
import grete
import pytest

app = grete.App("{name}", kafka={{"bootstrap.servers": "nowhere:9092"}})


@app.consumer("{name}", dead_letter="{name}.dlq", retry=grete.Retry(attempts=2, backoff="10ms..10ms"))
class Orders(grete.Consumer):
    def consume(self):
        for message in self.messages:
            if message.value == b"bad":
                raise ValueError("bad")
            self.producer.produce("{name}.out", message.value)
            self.mark(message)


@pytest.mark.kafka(topics={{"{name}": 2}})
@pytest.mark.parametrize("number", range(3))
def test_flow(kafka, number):
    with kafka.run(app) as t:
        kafka.produce("{name}", str(number), "bad", "9", partition=1)
        t.settle(60)
    assert kafka.committed("{name}") == {{1: 3}}
    assert kafka.values("{name}.out", int) == [number, 9]
    assert [dead.offset for dead in kafka.dead_letters("{name}.dlq")] == [1]


def test_a_second_run_goes_on(kafka):
    for count in (1, 2):
        with kafka.run(app) as t:
            kafka.produce("{name}", "1")
            t.settle(60)
        assert kafka.committed("{name}") == {{0: count}}


def test_fault(kafka):
    kafka.rebalance("{name}")
"""


# Small tests with a group, a commit and a produced record each.
SMALL_TESTS = """
import grete
import pytest

app = grete.App("{name}", kafka={{"bootstrap.servers": "nowhere:9092"}})


@app.consumer("{name}")
class Orders(grete.Consumer):
    def consume(self):
        for message in self.messages:
            self.producer.produce("{name}.out", message.value)
            self.mark(message)


@pytest.mark.parametrize("number", range({count}))
def test_flow(kafka, number):
    with kafka.run(app) as t:
        kafka.produce("{name}", str(number), str(number + 1))
        t.settle(60)
    assert kafka.committed("{name}") == {{0: 2}}
    assert kafka.values("{name}.out", int) == [number, number + 1]
"""


def run_plugin(directory: Path, servers: str, tests: str) -> str:
    (directory / "test_shop.py").write_text(tests)
    command = [sys.executable, "-m", "pytest", "-p", "grete.pytest_plugin", "-p", "no:grete", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "-q", "-rs", f"--kafka={servers}", "test_shop.py"],
        cwd=directory,
        env={**os.environ, "PYTHONPATH": PYTHON},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    return f"{done.stdout}\nexit status {done.returncode}"


def topics(servers: str) -> set[str]:
    with Admin({"bootstrap.servers": servers}) as admin:
        return {*admin.topics(timeout=30)}


def check(output: str) -> None:
    assert "4 passed, 1 skipped" in output, output
    assert "have no faults: use pytest --kafka=embedded" in output, output
    assert "exit status 0" in output, output


@pytest.mark.kafka
def test_tests_pass_on_the_brokers_of_this_run_and_leave_no_topic(
    kafka: KafkaCluster, topic: str, tmp_path: Path
) -> None:
    servers = kafka.bootstrap_servers.split(",")[0]
    check(run_plugin(tmp_path, servers, TESTS.format(name=topic)))
    assert not [name for name in topics(servers) if name.startswith(topic)]


def test_tests_pass_on_grete_dev_and_leave_its_topics(tmp_path: Path) -> None:
    with DevRun(tmp_path, "--topic", "kept:3") as dev:
        check(run_plugin(tmp_path, dev.bootstrap_servers, TESTS.format(name="orders")))
        assert topics(dev.bootstrap_servers) == {"kept"}


@pytest.mark.soak
@pytest.mark.kafka
@pytest.mark.parametrize("round_number", range(int(os.environ.get("PLUGIN_ROUNDS", "1"))))
def test_many_small_tests(kafka: KafkaCluster, topic: str, tmp_path: Path, round_number: int) -> None:
    """On brokers of their own in their process, or on this run's if these are others."""
    servers = "embedded" if chosen().kind == "embedded" else kafka.bootstrap_servers.split(",")[0]
    count = int(os.environ.get("PLUGIN_TESTS", "1000"))
    output = run_plugin(tmp_path, servers, SMALL_TESTS.format(name=topic, count=count))
    print(output.splitlines()[-2])
    assert f"{count} passed" in output, output[-20_000:]
    assert "exit status 0" in output, output[-20_000:]
