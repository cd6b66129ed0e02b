"""docs/architecture/workflows.md names each command of the workflows, and those of make exist."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def commands() -> Iterator[tuple[str, str]]:
    """Yields job and command of each step that runs one; a value of the matrix in its place is each of its values."""
    for workflow in WORKFLOWS:
        for job, description in yaml.safe_load(workflow.read_text())["jobs"].items():
            matrix = description.get("strategy", {}).get("matrix", {})
            for step in description.get("steps", []):
                if "run" in step:
                    for command in _each(" ".join(step["run"].split()), matrix):
                        yield f"{workflow.name}: {job}", command


def _each(command: str, matrix: dict[str, list[str]]) -> Iterator[str]:
    found = re.search(r"\$\{\{ matrix\.(\w+) \}\}", command)
    if found is None:
        yield command
        return
    for value in matrix[found[1]]:
        yield from _each(command.replace(found[0], value), matrix)


def test_commands_of_make_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), flags=re.MULTILINE))
    called = {target for _, command in commands() for target in re.findall(r"make ([a-z-]+)", command)}
    assert len(called) > 10
    assert called <= targets


def test_each_command_has_a_row() -> None:
    page = (ROOT / "docs" / "architecture" / "workflows.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("|")]
    for job, command in commands():
        of_make = re.findall(r"make [a-z-]+", command)
        wanted = of_make[0] if of_make else command.split(" && ")[-1].split()[0]
        name = job.split()[-1]
        assert any(f"`{name}`" in row and wanted in row for row in rows), f"{job}: no row has {wanted}"
