"""Settings of the property tests; where tests run that must find no grete.toml."""

from pathlib import Path

import pytest
from hypothesis import settings

# No deadline: how long one example takes on a machine that others use, too, says nothing.
settings.register_profile("grete", deadline=None, print_blob=True)
settings.load_profile("grete")


@pytest.fixture
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The working directory, with no grete.toml but the test's own."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
