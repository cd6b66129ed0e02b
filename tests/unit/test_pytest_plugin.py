"""The plugin for pytest: in runs of its own, as users have them."""

from __future__ import annotations

import errno
import itertools
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.unit.fake_container_engine import FakeEngine

pytest_plugins = ["pytester"]

PYTHON = str(Path(__file__).parents[2] / "python")

SHOP = """
import grete

app = grete.App("shop", kafka={"bootstrap.servers": "nowhere:9092"})

@app.consumer("orders", dead_letter="orders.dlq", retry=grete.Retry(attempts=3, backoff="1h..1h"))
class Orders(grete.Consumer):
    def consume(self):
        for message in self.messages:
            if message.value == b"bad":
                raise ValueError("bad")
            self.producer.produce("invoices", message.value)
            self.mark(message)
"""

Run = Callable[..., pytest.RunResult]


@pytest.fixture
def run(pytester: pytest.Pytester) -> Run:
    """Runs pytest on tests of the shop, which gets a module of its own for each run."""
    pytester.makepyfile(shop=SHOP)
    pytester.syspathinsert(PYTHON)

    def run_tests(tests: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(
            "import grete, pytest\nfrom grete import testing\nfrom shop import app\n" + textwrap.dedent(tests)
        )
        return pytester.runpytest_inprocess(
            "-p", "no:grete", "-p", "grete.pytest_plugin", "--strict-markers", *arguments
        )

    return run_tests


def test_each_test_has_brokers_of_its_own(run: Run) -> None:
    result = run(
        """
        @pytest.mark.parametrize("number", range(6))
        def test_flow(kafka, number):
            assert kafka.topics() == {}
            with kafka.run(app) as t:
                kafka.produce("orders", str(number))
                t.settle()
            assert kafka.committed("orders") == {0: 1}
            assert kafka.values("invoices", int) == [number]
        """,
        "-n2",
    )
    result.assert_outcomes(passed=6)


def test_async_tests_of_the_page_run_with_the_plugin_of_anyio(run: Run) -> None:
    page = (Path(__file__).parents[2] / "docs" / "testing.md").read_text()
    section = page.partition("### Async tests\n")[2]
    snippet = section.partition("```python\n")[2].partition("```")[0]
    run(snippet).assert_outcomes(passed=1)
    # Without the mark nothing runs it, so the mark in the page is necessary.
    run(snippet.replace("@pytest.mark.anyio\n", "")).assert_outcomes(failed=1)


def test_the_mark_makes_topics_and_brokers(run: Run) -> None:
    result = run(
        """
        @pytest.mark.kafka(topics={"orders": 8}, brokers=3)
        def test_mark(kafka):
            assert kafka.topics() == {"orders": 8}
            assert len(kafka.bootstrap_servers.split(",")) == 3

        @pytest.mark.kafka(topics="orders")
        def test_wrong(kafka):
            pass

        @pytest.mark.kafka({"orders": 8})
        def test_positional(kafka):
            pass

        @pytest.mark.kafka(topic={"orders": 8})
        def test_misspelt(kafka):
            pass
        """
    )
    result.assert_outcomes(passed=1, errors=3)
    result.stdout.fnmatch_lines(
        [
            '*topics are a dict like {"orders": 8}*',
            "*there is no {'orders': 8}: name the arguments topics and brokers*",
            "*there is no topic: name the arguments topics and brokers*",
        ]
    )


def test_a_failed_test_shows_where_each_record_is(run: Run) -> None:
    result = run(
        """
        def test_fails(kafka):
            with kafka.run(app) as t:
                kafka.produce("orders", "1", "bad", "3", key="k")
                t.settle(0.3)
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        [
            "*TimeoutError: App *shop* has not settled: orders[[]0] is paused at offset *, attempt 2, waits*",
            "topic *partition *offset *key *group *runs *attempt *state",
            "orders *0 *0 *'k' *shop *1 *1 *committed",
            "orders *0 *1 *'k' *shop *1 *1 *handled, not committed",
        ]
    )


def test_the_error_of_a_handler_that_ends_the_app_ends_settle(run: Run) -> None:
    result = run(
        """
        def test_exit(kafka):
            exiting = grete.App("exiting")

            @exiting.consumer("orders")
            def leave(message: grete.Message):
                raise SystemExit(3)

            with kafka.run(exiting) as t:
                kafka.produce("orders", "1")
                t.settle()
        """
    )
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*GreteError: SystemExit in a handler has ended the App*"])


def test_brokers_that_run_elsewhere(run: Run) -> None:
    from grete.broker import Broker

    tests = """
        @pytest.mark.kafka(topics={"orders": 2})
        def test_flow(kafka):
            with kafka.run(app) as t:
                kafka.produce("orders", "1", partition=1)
                t.settle()
            assert kafka.committed("orders") == {1: 1}
            assert kafka.values("invoices", int) == [1]

        def test_again(kafka):
            with kafka.run(app) as t:
                kafka.produce("orders", "2")
                t.settle()
            assert kafka.committed("orders") == {0: 1}

        def test_fault(kafka):
            kafka.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
        """
    with Broker(auto_create_topics=False) as broker:
        result = run(tests, f"--kafka={broker.bootstrap_servers}", "-rs")
        result.assert_outcomes(passed=2, skipped=1)
        result.stdout.fnmatch_lines(
            [f"kafka: {broker.bootstrap_servers}", "*have no faults: use pytest --kafka=embedded*"]
        )
        assert broker.topics() == {}
        broker.create_topic("orders")
        result = run(tests, f"--kafka={broker.bootstrap_servers}", "-k", "again")
        result.stdout.fnmatch_lines(['*topic "orders" exists at*'])
        assert broker.topics()["orders"] == 1


def test_topics_of_a_test_that_was_killed_are_deleted() -> None:
    from grete.broker import Broker
    from grete.testing._kafka.remote import RemoteCluster

    code = "from grete.testing._kafka.remote import RemoteCluster; import os, sys\n"
    code += "RemoteCluster(sys.argv[1]).create_topics({'orders': 2})\nos._exit(3)"
    with Broker(auto_create_topics=False) as broker:
        address = broker.bootstrap_servers
        killed = subprocess.run([sys.executable, "-c", code, address], env={"PYTHONPATH": PYTHON}, check=False)
        assert (killed.returncode, broker.topics()) == (3, {"orders": 2})
        cluster = RemoteCluster(address)
        try:
            assert broker.topics() == {}
            cluster.create_topics({"orders": 1})
            assert broker.topics() == {"orders": 1}
        finally:
            cluster.close()
        assert broker.topics() == {}


def test_processes_take_turns_and_leave_no_file(tmp_path: Path) -> None:
    """Each process removes the lock file that the next one may have opened already."""
    from grete.broker import Broker

    code = """
import sys
from grete.testing._kafka.remote import RemoteCluster
for _ in range(8):
    cluster = RemoteCluster(sys.argv[1])
    assert cluster._admin.topics() == [], cluster._admin.topics()
    cluster.create_topics({"orders": 1})
    cluster.close()
"""
    environment = {"PYTHONPATH": PYTHON, "TMPDIR": str(tmp_path)}
    with Broker(auto_create_topics=False) as broker:
        command = [sys.executable, "-c", code, broker.bootstrap_servers]
        others = [subprocess.Popen(command, env=environment) for _ in range(4)]
        assert [other.wait(60) for other in others] == [0] * 4
        assert broker.topics() == {}
    assert list(tmp_path.iterdir()) == []


CONTAINED = """
    @pytest.mark.parametrize("number", range(2))
    def test_flow(kafka, number):
        with kafka.run(app) as t:
            kafka.produce("orders", str(number))
            t.settle()
        assert kafka.values("invoices", int) == [number]

    def test_fault(kafka):
        kafka.fail("Fetch", error="NOT_LEADER_OR_FOLLOWER")
    """


@pytest.mark.parametrize("name", ["docker", "podman"])
def test_apache_kafka_in_a_container(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    engine = FakeEngine(tmp_path, name)
    monkeypatch.setenv("PATH", str(tmp_path))
    run(CONTAINED, "--kafka=apache:4.3.0", "-rs").assert_outcomes(passed=2, skipped=1)
    # One container for all tests, which is gone afterwards.
    started, removed = engine.calls
    assert (started[:3], started[-1]) == (["run", "--detach", "--rm"], "apache/kafka:4.3.0")
    host, port, inner = started[started.index("--publish") + 1].split(":")
    assert (host, inner) == ("127.0.0.1", "9092")
    environment = dict(text.split("=", 1) for flag, text in itertools.pairwise(started) if flag == "--env")
    assert environment["KAFKA_LISTENERS"] == "PLAINTEXT://:9092,CONTROLLER://:9093"
    assert environment["KAFKA_ADVERTISED_LISTENERS"] == f"PLAINTEXT://127.0.0.1:{port}"
    assert environment["KAFKA_GROUP_INITIAL_REBALANCE_DELAY_MS"] == "0"
    assert {environment[name] for name in environment if "REPLICATION_FACTOR" in name} == {"1"}
    assert removed[:2] == ["rm", "--force"]
    with socket.socket() as client:
        assert client.connect_ex((host, int(port))) == errno.ECONNREFUSED


def test_a_container_that_does_not_start(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    FakeEngine(tmp_path, error="Cannot connect to the Docker daemon")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(CONTAINED, "--kafka=apache:4.3.0", "-k", "flow and 0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*apache/kafka:4.3.0 does not start: Cannot connect to the Docker daemon*"])


def test_no_container_engine_on_the_path(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(CONTAINED, "--kafka=apache:4.3.0", "-k", "flow and 0")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*--kafka=apache:4.3.0 needs docker or podman on the path*give its HOST:PORT*"])


def test_brokers_that_cannot_be_used_cost_one_test_their_time(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = FakeEngine(tmp_path, error="no such image")
    monkeypatch.setenv("PATH", str(tmp_path))
    result = run(CONTAINED, "--kafka=apache:9.9.9")
    result.assert_outcomes(errors=3)
    assert len(engine.calls) == 1
    result.stdout.fnmatch_lines(
        ["*no other test tries again, because pytest --kafka=apache:9.9.9 failed*no such image"]
    )


def test_a_fault_that_no_request_meets_is_a_warning(run: Run) -> None:
    result = run(
        """
        def test_fault(kafka):
            kafka.fail("Produce", error="NOT_LEADER_OR_FOLLOWER", topic="invoices", times=1)
            kafka.delay("Fetch", "2ms", times=1)
            kafka.fail("Produce", error="NOT_ENOUGH_REPLICAS", topic="invoice", times=1)
            with kafka.run(app) as t:
                kafka.produce("orders", "1")
                t.settle()
        """,
        "-Wdefault",
    )
    result.assert_outcomes(passed=1, warnings=1)
    result.stdout.fnmatch_lines(
        ["*UnusedFaultWarning: no request met kafka.fail('Produce', 'NOT_ENOUGH_REPLICAS', topic='invoice', times=1)*"]
    )


def test_a_wrong_option_is_an_error_before_the_first_test(run: Run) -> None:
    result = run("def test_nothing():\n    pass", "--kafka=apache")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*--kafka=apache: use embedded, apache:VERSION*"])


def test_an_unused_plugin_imports_nothing_else() -> None:
    code = "import sys, grete.pytest_plugin; print(*(name for name in sys.modules if name.startswith('grete')))"
    imported = subprocess.run(
        [sys.executable, "-c", code], env={"PYTHONPATH": PYTHON}, capture_output=True, text=True, check=True
    )
    assert imported.stdout.split() == ["grete", "grete.pytest_plugin"]
