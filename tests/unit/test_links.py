"""Checks the links of the documents: each target exists, in the tree or among the headings of a page."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md")), ROOT / "benchmarks" / "README.md"]
_LINK = re.compile(r"\[[^\]\n]*\]\(([^)\s]+)\)")


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub makes of the headings."""
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    # What mkdocstrings fills in has the full name as its anchor.
    names = {*re.findall(r"^::: (.*)$", text, flags=re.MULTILINE)}
    return names | {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    broken = []
    for target in _LINK.findall(re.sub(r"`[^`\n]*`", "code", page.read_text())):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        there = page.parent / name if name else page
        if not there.exists() or (anchor and anchor not in anchors(there)):
            broken.append(target)
    assert broken == []
