"""`grete explain`, the attribute `help` of errors, and the names of events at the ends of log lines."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest
from click.testing import CliRunner

import grete
from grete import testing
from grete._cli import main
from grete._explain import ENTRIES
from grete._process.node import Formatter
from grete.instrumentation.events import EVENTS


def call(*words: str) -> tuple[int, str]:
    result = CliRunner().invoke(main, ["explain", *words])
    return result.exit_code, result.output


@pytest.mark.parametrize("name", ["offset.reset", "[offset.reset]", " offset.reset "])
def test_a_name_from_the_log_is_explained(name: str) -> None:
    status, text = call(name)
    assert (status, text.splitlines()[0]) == (0, "offset.reset")
    assert all(part in text for part in ("WARNING", "\nCause\n", "\nCure\n", "\nExample\n", "auto.offset.reset"))


@pytest.mark.parametrize("name", ["TlsError", "grete.TlsError", "grete.errors.TlsError:"])
def test_a_class_from_a_traceback_is_explained(name: str) -> None:
    status, text = call(name)
    assert (status, text.splitlines()[0]) == (0, "TlsError")
    assert "security" not in text.splitlines()[0]


def test_an_event_without_warnings_is_described() -> None:
    status, text = call("group.assigned")
    assert status == 0
    assert EVENTS["group.assigned"].description.split()[0] in text
    assert "Cause" not in text


def test_a_name_that_does_not_exist_gets_a_suggestion() -> None:
    status, text = call("offset.rest")
    assert status == 1
    assert 'did you mean "offset.reset"?' in text


def test_all_names_are_listed() -> None:
    status, text = call()
    assert status == 0
    assert text.split() == sorted({*ENTRIES, *EVENTS})


def test_an_error_names_the_command_that_explains_it() -> None:
    class NoCustomerError(grete.Reject):
        pass

    assert grete.TimeoutError("x").help == "grete explain TimeoutError"
    assert NoCustomerError("x").help == "grete explain Reject"
    assert testing.NeedsEmbeddedBrokerError("x").help == "grete explain NeedsEmbeddedBrokerError"


@pytest.mark.parametrize(
    ("level", "event", "wanted"),
    [
        (logging.WARNING, "offset.reset", "moved [offset.reset]\n  more"),
        (logging.INFO, "group.assigned", "moved\n  more"),
        (logging.ERROR, None, "moved\n  more"),
    ],
)
def test_the_first_line_of_a_warning_ends_with_its_event(level: int, event: str | None, wanted: str) -> None:
    record = logging.LogRecord("grete", level, "", 0, "moved\nmore", (), None)
    if event is not None:
        record.event = event
    assert Formatter("%(message)s").format(record) == wanted
    assert record.getMessage() == "moved\nmore", "other handlers get the line without it"


def test_the_error_of_a_command_ends_with_its_class() -> None:
    result = CliRunner().invoke(main, ["topics", "list", "-k", "bootstrap.servers=nowhere"])
    assert result.exit_code == 1
    assert result.output.startswith("Error: ")
    assert result.output.endswith(" [ConfigError]\n")


def test_a_program_without_logging_shows_the_name() -> None:
    code = """
import logging
from grete.instrumentation._logging.default_handler import add_default_handler
add_default_handler("INFO")
logging.getLogger("grete").warning("moved", extra={"event": "offset.reset"})
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stderr.endswith("grete: moved [offset.reset]\n")
