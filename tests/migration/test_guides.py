"""docs/migration: the guides show the programs that the tests run, and have the sections that they share."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GUIDES = {path.stem: path for path in sorted((ROOT / "docs" / "migration").glob("*.md"))}
LIBRARIES = ["aiokafka", "celery", "confluent-kafka", "faststream", "faust", "karafka"]
# A program, as a link to its file and its text.
_PROGRAM = re.compile(r"^\[`([^`]+)`\]\(([^)]+)\):\n\n```(python|ruby)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def test_there_is_a_guide_for_each_library() -> None:
    assert sorted(GUIDES) == LIBRARIES


@pytest.mark.parametrize("library", LIBRARIES)
def test_the_programs_of_a_guide_are_the_files_that_are_run(library: str) -> None:
    guide = GUIDES[library]
    shown = {(guide.parent / link).resolve(): text for _, link, _, text in _PROGRAM.findall(guide.read_text())}
    folder = ROOT / "examples" / "migration" / library.replace("-", "_")
    files = {path for path in folder.iterdir() if path.suffix in (".py", ".rb")}
    assert set(shown) == files
    for path, text in shown.items():
        assert text == path.read_text(), path


@pytest.mark.parametrize("library", LIBRARIES)
def test_a_guide_says_what_is_gained_what_is_lost_and_what_surprises(library: str) -> None:
    text = GUIDES[library].read_text()
    headings = re.findall(r"^## (.*)$", text, re.MULTILINE)
    wanted = [
        "Concepts",
        "Settings",
        "A program, before and after",
        "How to switch",
        "What you gain",
        "What you lose",
        "What will surprise you",
    ]
    assert [heading for heading in headings if heading in wanted] == wanted
    assert text.split("\n\n")[1].startswith("After this page you can ")


@pytest.mark.parametrize("library", LIBRARIES)
def test_settings_of_a_guide_exist(library: str) -> None:
    settings = (ROOT / "docs" / "configuration.md").read_text()
    table = GUIDES[library].read_text().partition("\n## Settings\n")[2].partition("\n## ")[0]
    rows = [row.split(" | ") for row in re.findall(r"^\| (`.*) \|$", table, re.MULTILINE)]
    assert rows
    for row in rows:
        for name in re.findall(r"`([a-z_.]+)[=`]", row[1]):
            assert f"| `{name}` |" in settings, name
