"""docs/handlers.md: what it shows is run."""

import re
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "handlers.md"


def _tests() -> dict[str, Callable[[], None]]:
    module = ModuleType("shop")
    for block in re.findall("```python\n(.*?)```", PAGE.read_text(), re.DOTALL):
        line = PAGE.read_text().split(block)[0].count("\n")
        exec(compile("\n" * line + block, str(PAGE), "exec"), module.__dict__)
    return {name: value for name, value in vars(module).items() if name.startswith("test_")}


_TESTS = _tests()


@pytest.mark.parametrize("name", _TESTS)
def test_the_page_shows_what_is_so(name: str) -> None:
    _TESTS[name]()


def test_the_page_has_tests() -> None:
    assert len(_TESTS) == 6
