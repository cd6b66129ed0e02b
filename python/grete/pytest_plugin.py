"""Plugin of pytest: the fixture `kafka`, its mark, and the option `--kafka`. `pytest` loads it by its entry point.

A test session without a test that uses the fixture imports nothing else of Grete.
"""

import sys
from collections.abc import Generator, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from grete.testing import Kafka
    from grete.testing._kafka.choice import Choice

_MARK = (
    "kafka(topics={}, brokers=1): topics with their numbers of partitions that exist when the test begins, and the "
    "number of embedded brokers, for the fixture `kafka`"
)
_choice: "pytest.StashKey[Choice]" = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("grete").addoption(
        "--kafka",
        dest="grete_kafka",
        default="embedded",
        metavar="BROKER",
        help="brokers for tests with the fixture kafka: embedded (the default), apache:VERSION in a container, or "
        "HOST:PORT",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", _MARK)
    if config.getoption("grete_kafka") != "embedded":
        _choose(config)  # a wrong option is an error before the first test


def pytest_report_header(config: pytest.Config) -> str | None:
    chosen = config.getoption("grete_kafka")
    return None if chosen == "embedded" else f"kafka: {chosen}"


def pytest_unconfigure(config: pytest.Config) -> None:
    choice = config.stash.get(_choice, None)
    if choice is not None:
        choice.close()


@pytest.fixture
def kafka(request: pytest.FixtureRequest) -> "Iterator[Kafka]":
    """Brokers of the test's own: see `grete.testing.Kafka`. `@pytest.mark.kafka(topics={"orders": 8}, brokers=3)`."""
    mark = request.node.get_closest_marker("kafka")
    topics, brokers = _read_mark(mark.args, mark.kwargs) if mark is not None else ({}, 1)
    with _choose(request.config).open(topics, brokers) as opened:
        yield opened
        for fault in opened.unused_faults():
            import warnings

            from grete.testing import UnusedFaultWarning

            cure = "correct its API and conditions, or remove it"
            warnings.warn(UnusedFaultWarning(f"no request met {fault}: {cure}"), stacklevel=1)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """Skips tests that need embedded brokers on others."""
    try:
        return (yield)
    except Exception as error:
        if "grete.testing" in sys.modules:
            from grete.testing import NeedsEmbeddedBrokerError

            if isinstance(error, NeedsEmbeddedBrokerError) and _fixture(item) is not None:
                pytest.skip(str(error))
        raise


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds a table of all records to the report of a failed test."""
    report = yield
    fixture = _fixture(item) if report.failed and report.when == "call" else None
    if fixture is not None:
        try:
            table = fixture.table()
        except Exception as error:
            table = f"the brokers do not tell: {error}"
        if table:
            report.sections.append(("Kafka records", table))
    return report


def _read_mark(positional: Sequence[object], named: Mapping[str, Any]) -> tuple[dict[str, int], int]:
    """Returns the mark's topics and brokers."""
    unknown = [*map(repr, positional), *sorted(named.keys() - {"topics", "brokers"})]
    if unknown:
        raise pytest.UsageError(
            f"pytest.mark.kafka: there is no {unknown[0]}: name the arguments topics and brokers, like "
            'pytest.mark.kafka(topics={"orders": 8}, brokers=3)'
        )
    topics, brokers = named.get("topics", ()), named.get("brokers", 1)
    if isinstance(topics, str):
        raise pytest.UsageError(f'pytest.mark.kafka: topics are a dict like {{"{topics}": 8}}, not a string')
    return dict(topics) if hasattr(topics, "items") else dict.fromkeys(topics, 1), brokers


def _choose(config: pytest.Config) -> "Choice":
    choice = config.stash.get(_choice, None)
    if choice is None:
        from grete.errors import ConfigError
        from grete.testing._kafka.choice import Choice

        try:
            choice = config.stash[_choice] = Choice(config.getoption("grete_kafka"))
        except ConfigError as error:
            raise pytest.UsageError(str(error)) from None
    return choice


def _fixture(item: pytest.Item) -> "Kafka | None":
    """Returns what the test got as `kafka`; None: nothing, or the fixture of another plugin."""
    found = getattr(item, "funcargs", {}).get("kafka")
    if found is None or "grete.testing" not in sys.modules:
        return None
    from grete.testing import Kafka

    return found if isinstance(found, Kafka) else None
