"""Each planted defect is found by the test that is named for it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.plants import Plant, check, copy_of_the_tree, plants

pytestmark = [pytest.mark.soak, pytest.mark.timeout(1200)]


@pytest.fixture(scope="module")
def tree() -> Iterator[Path]:
    with copy_of_the_tree() as path:
        yield path


@pytest.mark.parametrize("plant", plants(), ids=lambda plant: plant.name)
def test_the_defect_is_found(tree: Path, plant: Plant) -> None:
    check(tree, plant)
