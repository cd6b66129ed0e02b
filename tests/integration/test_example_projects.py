"""Tests of the example projects, run as their READMEs say: `pytest examples/NAME`, with Grete's plugin for pytest."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka.jars import ROOT

EXAMPLES = ROOT / "examples"
PROJECTS = sorted(path.parent.name for path in EXAMPLES.glob("*/test_*.py"))


@pytest.mark.parametrize("project", PROJECTS)
def test_the_tests_of_a_project(project: str, tmp_path: Path) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "GRETE_"))}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist"]
    command += ["--basetemp", str(tmp_path / "tests"), f"examples/{project}"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=110)
    assert done.returncode == 0, done.stdout + done.stderr
    assert re.search(r"^\d+ passed", done.stdout, re.MULTILINE), done.stdout


@pytest.mark.parametrize("project", [*PROJECTS, "deploy"])
def test_a_project_says_how_it_is_run(project: str) -> None:
    readme = (EXAMPLES / project / "README.md").read_text()
    if project != "deploy":
        assert f"pytest examples/{project}" in readme
    assert f"]({project}/README.md)" in (EXAMPLES / "README.md").read_text()


def test_the_list_names_all_examples() -> None:
    page = (EXAMPLES / "README.md").read_text()
    linked = set(re.findall(r"\]\(([^)#]+)\)", page))
    assert {path.name for path in EXAMPLES.glob("*.py")} <= linked
    assert [link for link in linked if not (EXAMPLES / link).exists()] == []
