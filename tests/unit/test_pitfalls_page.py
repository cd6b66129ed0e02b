"""Checks docs/pitfalls.md: all pitfalls are listed, and each test that the page names exists in its file."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "pitfalls.md"
_ROW = re.compile(r"\| P(\d+) \| ([^|]+) \| ([^|]+) \|")
_FILE = re.compile(r"\]\(\.\./([^)]+)\): ((?:`\w+`(?:, )?)+)")


def rows() -> dict[int, str]:
    """Returns the last cell of each row, by the number of its pitfall."""
    return {int(number): cell for number, _, cell in _ROW.findall(PAGE.read_text())}


def test_all_pitfalls_are_listed() -> None:
    assert list(rows()) == list(range(1, 45))


@pytest.mark.parametrize("number", range(1, 45))
def test_named_tests_exist(number: int) -> None:
    cell = rows()[number]
    named = _FILE.findall(cell)
    assert named or cell.startswith("No test"), "a row without a test says so"
    for file, names in named:
        text = (PAGE.parents[1] / file).read_text()
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"\b(fn|def) {name}\b", text), f"{file} has no {name}"
