"""docs/metrics.md names each metric that there is, as it is, and no other."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from grete._swarm.policy import exit_status
from tests.unit.exposition import CATALOGUE

PAGE = Path(__file__).parents[2] / "docs" / "metrics.md"
_UNITS = {"_bytes": "bytes", "_seconds": "seconds", "_records": "records", "_timestamp_seconds": "seconds since 1970"}


def rows() -> dict[str, list[str]]:
    """Each metric's cells behind its name."""
    found: dict[str, list[str]] = {}
    for text in PAGE.read_text().splitlines():
        if match := re.fullmatch(r"\| `(grete_\w+)` \|(.*)\|", text):
            assert match[1] not in found, f"{match[1]} is there twice"
            found[match[1]] = [cell.strip() for cell in match[2].split("|")]
    return found


def test_each_metric_has_its_row_and_each_row_its_metric() -> None:
    assert list(rows()) == list(CATALOGUE)


@pytest.mark.parametrize("name", CATALOGUE)
def test_a_row_says_what_the_metric_is(name: str) -> None:
    kind, unit, labels, says, when = rows()[name]
    assert (kind, re.findall(r"`(\w+)`", labels)) == (CATALOGUE[name][0], CATALOGUE[name][2])
    assert says
    assert when
    base = name.removesuffix("_total")
    suffix = max((one for one in _UNITS if base.endswith(one)), key=len, default=None)
    if name == "grete_process_start_time_seconds":
        suffix = "_timestamp_seconds"
    assert suffix is None or unit == _UNITS[suffix], "the name ends with its unit"


def test_reasons_of_deaths_are_documented() -> None:
    text = PAGE.read_text()
    assert [
        reason for reason in exit_status.EXIT_REASONS if not reason.startswith("SIG") and f"`{reason}`" not in text
    ] == []
