"""The tutorial and the guides: their files, commands and programs run, and print what the pages show."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.page_runner import DOCS, PageRunner, blocks, pages

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
    PageRunner(tmp_path).run(page)
