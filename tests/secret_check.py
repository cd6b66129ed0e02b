"""Check that no test shows a secret: in output, logs, errors, answers of HTTP and files.

Secrets of tests have a mark (`tests.kafka.secrets`). While a test runs, what Grete writes is searched for the marks:

- standard output and error of the test, of the commands that it runs, and of processes that it waits for;
- records of the log, with their fields and tracebacks;
- errors: text, arguments, attributes and contexts of each error that Grete makes or that `pytest.raises` catches;
- bodies of HTTP responses: metrics, probes, traces;
- files in `tmp_path`: logs, reports, dumps. Files that are there to hold a secret are left out by their names.

A test that shows a secret fails. `@pytest.mark.shows_secrets("why")` is for what must show one.
"""

from __future__ import annotations

import fnmatch
import http.client
import logging
import subprocess
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from unittest import mock

import click.testing
import pytest

from grete import errors
from tests.kafka.secrets import MARKS, forms

# Files in which tests give secrets to programs.
_GIVEN = (
    "*.toml",
    "*.key",
    "*.pem",
    "*.p12",
    "*.jks",
    "*.py",
    "*.pyc",
    "*.properties",
    "*.conf",
    "*passw*",
    "*secret*",
)
_MAX_FILE_BYTES = 32 << 20
_FORMS = [form for mark in MARKS for form in forms(mark)]
_FORMS_AS_BYTES = [form.encode() for form in _FORMS]


def shown_in(text: str | bytes | bytearray) -> str | None:
    """Return the part of a text that shows a secret, with the secret masked; None: it shows none."""
    if isinstance(text, (bytes, bytearray)):
        if not any(form in text for form in _FORMS_AS_BYTES):
            return None
        text = text.decode("utf-8", "backslashreplace")
    for form in _FORMS:
        at = text.find(form)
        if at >= 0:
            part = text[max(0, at - 100) : at + len(form) + 40]
            for masked in _FORMS:
                part = part.replace(masked, "<secret>")
            return part
    return None


def texts_of(error: BaseException) -> Iterator[str]:
    """Yield all that a log could show of an error: texts, arguments and attributes of it and of its contexts."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield ascii([type(one).__name__, one.args, {k: v for k, v in vars(one).items() if not k.startswith("_")}])
        try:
            yield str(one)
        except Exception as failure:  # an error of a test may refuse to be a text
            yield repr(failure)
        pending += [one.__cause__, one.__context__]


class SecretCheck:
    """Plugin of pytest: reads what tests write, and fails those that show a secret."""

    def __init__(self) -> None:
        self._found: list[str] = []
        self._sections = 0  # those of the present test that were read

    def look_at(self, place: str, text: object) -> None:
        """Note a secret in a text. What is no text is read as Python shows it."""
        if text is None:
            return
        part = shown_in(text if isinstance(text, (str, bytes, bytearray)) else repr(text))
        if part is not None and len(self._found) < 20:
            self._found.append(f"{place}: ...{part}...")

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        with ExitStack() as stack:
            for patch in self._patches():
                stack.enter_context(patch)
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Generator[None, None, None]:
        result = yield
        directory = getattr(item, "funcargs", {}).get("tmp_path")
        if isinstance(directory, Path):
            self._look_at_files(directory)
        return result

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if report.when == "setup":
            self._sections = 0
        for name, text in report.sections[self._sections :]:
            self.look_at(name, text)
        self._sections = len(report.sections)
        found, self._found = self._found, []
        if found and report.outcome == "passed" and item.get_closest_marker("shows_secrets") is None:
            report.outcome = "failed"
            report.longrepr = "\n".join(["this test shows a secret:", *dict.fromkeys(found)])
        return report

    def _look_at_files(self, directory: Path) -> None:
        for file in sorted(directory.rglob("*")):
            if any(fnmatch.fnmatch(file.name, name) for name in _GIVEN) or file.is_symlink() or not file.is_file():
                continue
            try:
                if file.stat().st_size <= _MAX_FILE_BYTES:
                    self.look_at(f"file {file.name}", file.read_bytes())
            except OSError:  # made unreadable by the test
                continue

    def _patches(self) -> Iterator[Any]:
        yield self._results(subprocess.Popen, "communicate", "output of a process")
        yield self._results(pytest.CaptureFixture, "readouterr", "output")
        yield self._results(http.client.HTTPResponse, "read", "response of HTTP")
        yield self._results(click.testing.CliRunner, "invoke", "output of a command", lambda result: result.output)
        yield self._arguments(logging.Logger, "handle", self._look_at_record)
        yield self._arguments(
            errors.GreteError, "__init__", lambda *args, **fields: self.look_at("error", [args, fields])
        )
        yield self._arguments(type(pytest.raises(AssertionError)), "__exit__", self._look_at_caught)

    def _look_at_record(self, record: logging.LogRecord) -> None:
        self.look_at(f"log of {record.name}", record.getMessage())
        self.look_at(f"fields of a log record of {record.name}", vars(record))
        if record.exc_info is not None and isinstance(record.exc_info[1], BaseException):
            self._look_at_caught(None, record.exc_info[1], None)

    def _look_at_caught(self, _: object, error: BaseException | None, __: object) -> None:
        for text in texts_of(error) if error is not None else ():
            self.look_at(f"{type(error).__name__}", text)

    @contextmanager
    def _results(
        self, owner: type, name: str, place: str, pick: Callable[[Any], object] = lambda result: result
    ) -> Iterator[None]:
        """Check what a method returns."""
        original = getattr(owner, name)

        def call(*args: Any, **fields: Any) -> Any:
            result = original(*args, **fields)
            picked = pick(result)
            for text in picked if isinstance(picked, tuple) else (picked,):
                self.look_at(place, text)
            return result

        with mock.patch.object(owner, name, call):
            yield

    @contextmanager
    def _arguments(self, owner: type, name: str, look: Callable[..., None]) -> Iterator[None]:
        """Check what a method is called with."""
        original = getattr(owner, name)

        def call(self: Any, *args: Any, **fields: Any) -> Any:
            look(*args, **fields)
            return original(self, *args, **fields)

        with mock.patch.object(owner, name, call):
            yield
