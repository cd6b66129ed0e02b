"""docs/testing.md: what it shows is run."""

import asyncio
import inspect
import re
from collections.abc import Callable, Generator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from grete.testing import Kafka
from grete.testing._kafka.choice import Choice

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def _snippets() -> dict[str, Any]:
    blocks = re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    module = ModuleType("shop")
    # One module, at the lines of the page, so that a failure names its line.
    for block in blocks:
        line = PAGE.read_text().split(block)[0].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), module.__dict__)
    return vars(module)


_TESTS: dict[str, Callable[[], None]] = {
    name: value for name, value in _snippets().items() if name.startswith("test_") and callable(value)
}


def _kafka(test: Callable[..., object]) -> Generator[Kafka, None, None]:
    """Does what the plugin does, which is not loaded here."""
    marks = [mark.kwargs for mark in getattr(test, "pytestmark", []) if mark.name == "kafka"]
    settings = {"topics": {}, "brokers": 1, **(marks[0] if marks else {})}
    with Choice("embedded").open(settings["topics"], settings["brokers"]) as kafka:
        yield kafka


@pytest.mark.parametrize("name", _TESTS)
def test_the_page_shows_what_is_so(name: str) -> None:
    test: Callable[..., Any] = _TESTS[name]
    brokers = _kafka(test)
    arguments = [next(brokers)] if "kafka" in inspect.signature(test).parameters else []
    try:
        outcome = test(*arguments)
        if inspect.iscoroutine(outcome):
            # pytest alone does not run the test: a plugin does, by its mark. test_pytest_plugin runs one with anyio.
            assert "anyio" in [mark.name for mark in getattr(test, "pytestmark", [])]
            asyncio.run(outcome)
    finally:
        brokers.close()


def test_the_page_has_recipes() -> None:
    assert len(_TESTS) >= 25
