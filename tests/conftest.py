"""Fixtures for all tests: a shared broker, topic names, and the broker's log beside a failure."""

from __future__ import annotations

import itertools
import os
import signal
from collections.abc import Generator, Iterator

import pytest

from tests.kafka import KafkaCluster, failure_logs

_numbers = itertools.count(1)


def pytest_configure() -> None:
    # A shell that starts the run in the background lets it ignore SIGINT, and with it all that it starts.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def kafka() -> Iterator[KafkaCluster]:
    """One broker for the whole run; who kills or stops brokers starts an own one."""
    with KafkaCluster() as cluster:
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


def pytest_report_header() -> str:
    from tests.kafka import chosen_version

    return f"kafka: {chosen_version()}"
