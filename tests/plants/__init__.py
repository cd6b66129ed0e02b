"""Known defects, planted on purpose: the test that is named for each must find it.

Each `*.patch` here begins with lines of the form `name: value`: `pitfall` (what goes wrong) and `test`, either
`cargo CRATE TEST` (one unit test by its full name) or `pytest FILE`. `python -m tests.plants [NAME...]` plants them in
a copy of the tree, one at a time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka.jars import ROOT

HERE = Path(__file__).resolve().parent
# Its own, kept over runs: what is planted must not get into anybody else's build.
TARGET = ROOT / "build" / "plants" / "target"


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
                shutil.copy2(ROOT / name, target)
        yield Path(path)


def check(tree: Path, plant: Plant) -> None:
    """The test passes in the sound tree and fails with the defect; AssertionError if not. Leaves the tree sound."""
    outcome, output = _run(tree, plant)
    assert outcome == "passed", f"{plant.name}: {plant.test} {outcome} without the defect:\n{output[-4000:]}"
    apply = ["git", "apply", "--whitespace=nowarn"]
    subprocess.run([*apply, str(plant.patch)], cwd=tree, check=True)
    try:
        outcome, output = _run(tree, plant)
    finally:
        subprocess.run([*apply, "--reverse", str(plant.patch)], cwd=tree, check=True)
    assert outcome == "failed", f"{plant.name}: {plant.test} {outcome} with the defect:\n{output[-4000:]}"


def _run(tree: Path, plant: Plant) -> tuple[str, str]:
    """passed, failed, or what else became of the plant's test; and what was printed."""
    kind, *arguments = plant.test.split()
    if kind == "cargo":
        crate, name = arguments
        _, output = _call(tree, ["cargo", "test", "-p", crate, "--lib", "--", "--exact", name])
        for outcome, line in (("passed", "test result: ok. 1 passed;"), ("failed", "0 passed; 1 failed;")):
            if line in output:
                return outcome, output
        return "did not run", output
    # The extension, beside the Python files of this tree.
    code, output = _call(tree, ["cargo", "build", "-p", "grete-py"], PYO3_BUILD_EXTENSION_MODULE="1")
    if code != 0:
        return "did not build", output
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    shutil.copy2(TARGET / "debug" / "lib_native.so", tree / "python" / "grete" / f"_native{suffix}")
    code, output = _call(tree, [sys.executable, "-m", "pytest", "-q", *arguments], PYTHONPATH=str(tree / "python"))
    return {0: "passed", 1: "failed"}.get(code, "did not run"), output


def _call(tree: Path, command: Sequence[str], **environment: str) -> tuple[int, str]:
    env = {**os.environ, "CARGO_TARGET_DIR": str(TARGET), "PYO3_PYTHON": sys.executable, **environment}
    done = subprocess.run(
        command, cwd=tree, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    return done.returncode, done.stdout
