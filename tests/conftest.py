"""Fixtures for all tests: a shared broker, topic names, and the broker's log beside a failure."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import subprocess
import sys
from collections.abc import Generator, Iterator

import pytest

from tests.kafka import KafkaCluster, choose, chosen, failure_logs, new_cluster
from tests.secret_check import SecretCheck

_numbers = itertools.count(1)

# Set in the process that a test marked `own_process` has for itself.
OWN_PROCESS = "TEST_OWN_PROCESS"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--kafka",
        default="embedded",
        metavar="BROKER",
        help="the broker: embedded (the default), apache or apache:VERSION, or the HOST:PORT of one that runs",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(SecretCheck(), "secret_check")
    try:
        choose(config.getoption("--kafka"))
    except ValueError as error:
        raise pytest.UsageError(str(error)) from None
    # A shell that starts the run in the background, or nohup, ignores these signals for all that it starts.
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Keeps the collector away from thousands of tests and their modules, which live as long as the process."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker for the whole run; who kills or stops brokers starts an own one."""
    with new_cluster() as cluster:
        yield cluster


@pytest.fixture
def topic() -> str:
    """A name that no other test uses; nothing is created."""
    return f"topic-{next(_numbers)}-{os.getpid()}"


@pytest.fixture
def group() -> str:
    """A group id that no other test uses."""
    return f"group-{next(_numbers)}-{os.getpid()}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed:
        report.sections.extend(failure_logs())
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test marked `own_process` in a new process, where nothing of earlier tests is counted."""
    if pyfuncitem.get_closest_marker("own_process") is None or OWN_PROCESS in os.environ:
        return None
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["-m", "", "--kafka", pyfuncitem.config.getoption("--kafka"), pyfuncitem.nodeid]
    run = subprocess.run(
        command, cwd=pyfuncitem.config.rootpath, env={**os.environ, OWN_PROCESS: "1"}, capture_output=True, text=True
    )
    if run.returncode != 0:
        pytest.fail(f"in a process of its own:\n{run.stdout}{run.stderr}", pytrace=False)
    return True


def pytest_report_header() -> str:
    return f"kafka: {chosen()}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if chosen().is_apache:
        return
    only_apache = [item for item in items if item.get_closest_marker("apache")]
    if only_apache:
        config.hook.pytest_deselected(items=only_apache)
        items[:] = [item for item in items if not item.get_closest_marker("apache")]
