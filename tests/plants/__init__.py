"""Known defects, planted on purpose: the test that is named for each must find it.

Each `*.patch` here begins with lines of the form `name: value`: `pitfall` (what goes wrong), `test` (a cargo command,
which runs exactly one test). `python -m tests.plants [NAME...]` plants them in a copy of the tree, one at a time.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import ROOT

HERE = Path(__file__).resolve().parent
# Its own, kept over runs: what is planted must not get into anybody else's build.
TARGET = ROOT / "build" / "plants" / "target"
RAN = re.compile(r"^running 1 test$", re.MULTILINE)
PASSED = re.compile(r"^test result: ok\. 1 passed", re.MULTILINE)
FAILED = re.compile(r"^test result: FAILED\. 0 passed; 1 failed", re.MULTILINE)


@dataclass(frozen=True)
class Plant:
    """A defect and the test that finds it."""

    name: str
    pitfall: str
    test: str
    patch: Path


def plants() -> list[Plant]:
    """All that there are."""
    found = []
    for patch in sorted(HERE.glob("*.patch")):
        head = dict(re.findall(r"^(\w+): (.*)$", patch.read_text().partition("\ndiff ")[0], re.MULTILINE))
        found.append(Plant(patch.stem, head["pitfall"], head["test"], patch))
    return found


@contextmanager
def copy_of_the_tree() -> Iterator[Path]:
    """What Git knows of, as it is now, in a directory that goes away."""
    with tempfile.TemporaryDirectory(prefix="plants-") as path:
        names = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
        for name in names.decode().split("\0"):
            if name and (ROOT / name).exists():
                target = Path(path) / name
                target.parent.mkdir(parents=True, exist_ok=True)
                # With its times, or cargo builds everything anew.
                shutil.copy2(ROOT / name, target)
        yield Path(path)


def run(tree: Path, plant: Plant) -> str:
    """What cargo says to the plant's test in this tree."""
    command = shlex.split(plant.test)
    environment = {**os.environ, "CARGO_TARGET_DIR": str(TARGET)}
    done = subprocess.run(
        command, cwd=tree, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.stdout


def check(tree: Path, plant: Plant) -> None:
    """The test passes in the sound tree and fails with the defect; AssertionError if not. Leaves the tree sound."""
    sound = run(tree, plant)
    assert RAN.search(sound), f"{plant.name}: `{plant.test}` must run one test:\n{sound[-4000:]}"
    assert PASSED.search(sound), f"{plant.name}: fails without the defect:\n{sound[-4000:]}"
    apply = ["git", "apply", "--whitespace=nowarn"]
    subprocess.run([*apply, str(plant.patch)], cwd=tree, check=True)
    try:
        spoiled = run(tree, plant)
    finally:
        subprocess.run([*apply, "--reverse", str(plant.patch)], cwd=tree, check=True)
    assert FAILED.search(spoiled), f"{plant.name}: is not found by `{plant.test}`:\n{spoiled[-4000:]}"
