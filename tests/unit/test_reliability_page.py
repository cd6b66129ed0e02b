"""docs/reliability.md names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_each_test_of_the_page_exists() -> None:
    page = (ROOT / "docs" / "reliability.md").read_text()
    named = re.findall(r"tests/[a-z_/]+\.py|crates/[a-z-]+/src/[a-z_/]+\.rs", page)
    assert len(named) > 20
    assert [path for path in named if not (ROOT / path).exists()] == []
