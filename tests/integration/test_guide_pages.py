"""The tutorial and the guides: their files, commands and programs run, and print what the pages show."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from tests.integration.page_runner import DOCS, PageRunner, blocks, pages
from tests.unit.fake_registry import FakeRegistry

TUTORIAL = list(pages("tutorial"))
GUIDES = list(pages("guides"))


def test_all_pages_are_in_the_navigation() -> None:
    for folder, named in (("tutorial", TUTORIAL), ("guides", GUIDES)):
        assert sorted(f"{folder}/{page.name}" for page in (DOCS / folder).glob("*.md")) == sorted({*named})


@pytest.mark.parametrize("page", [page for page in TUTORIAL if blocks(page)])
def test_a_chapter_shows_what_happens(page: str, tmp_path: Path) -> None:
    runner = PageRunner(tmp_path)
    for earlier in TUTORIAL[: TUTORIAL.index(page)]:
        runner.write(earlier)
    runner.run(page)


@pytest.mark.parametrize("page", [page for page in GUIDES if blocks(page)])
def test_a_guide_shows_what_happens(page: str, tmp_path: Path) -> None:
    with FakeRegistry() as registry:
        PageRunner(tmp_path, {"http://localhost:8081": registry.url}).run(page)


def test_the_readme_shows_what_happens(tmp_path: Path) -> None:
    PageRunner(tmp_path).run("../README.md")


def test_the_guide_of_alerts_names_those_that_page() -> None:
    rules = yaml.safe_load((DOCS / "alerts" / "grete.rules.yml").read_text())
    page = [
        rule["alert"] for group in rules["groups"] for rule in group["rules"] if rule["labels"]["severity"] == "page"
    ]
    text = (DOCS / "guides" / "alerts.md").read_text().partition("## All that page")[2]
    assert re.findall(r"^\| `(\w+)` \|", text, re.MULTILINE) == page
