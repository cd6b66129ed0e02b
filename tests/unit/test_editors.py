"""What pyright accepts and refuses of declarations and examples, and what jedi shows while they are typed."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import jedi
import pytest

ROOT = Path(__file__).parents[2]
DECLARATIONS = ROOT / "tests" / "unit" / "typed_declarations.py"
IGNORED = re.compile(r"  # type: ignore\[[a-z-]+\]$")


def pyright(directory: Path, *files: Path) -> list[dict[str, Any]]:
    """The errors of pyright in these files."""
    config = directory / "pyrightconfig.json"
    config.write_text(
        json.dumps(
            {
                "typeCheckingMode": "standard",
                "extraPaths": [str(ROOT / "python"), str(ROOT)],
                "pythonVersion": "3.11",
                "enableTypeIgnoreComments": False,
                "include": [str(file) for file in files],
            }
        )
    )
    done = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, "-p", str(config)],
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    found: dict[str, Any] = json.loads(done.stdout)
    assert found["summary"]["filesAnalyzed"] >= len(files), found
    return [one for one in found["generalDiagnostics"] if one["severity"] == "error"]


def test_pyright_accepts_and_refuses_what_mypy_does(tmp_path: Path) -> None:
    copy = tmp_path / "declared.py"
    lines = DECLARATIONS.read_text().splitlines()
    copy.write_text("\n".join(IGNORED.sub("", line) for line in lines))
    refused = {number for number, line in enumerate(lines, 1) if IGNORED.search(line)}
    # A function without annotations is an error for `mypy --strict` only.
    refused -= {number for number, line in enumerate(lines, 1) if "[no-untyped-def]" in line}
    found = {one["range"]["start"]["line"] + 1: one["message"] for one in pyright(tmp_path, copy)}
    assert set(found) == refused, found


def test_pyright_accepts_the_examples(tmp_path: Path) -> None:
    examples = sorted((ROOT / "examples").glob("*.py"))
    found = pyright(tmp_path, *examples)
    assert not found, [f"{one['file']}:{one['range']['start']['line'] + 1}: {one['message']}" for one in found]


@pytest.mark.parametrize(
    ("code", "wanted"),
    [
        ("import grete\ngrete.App(", 'shutdown_timeout (str | float, seconds, default "30s")'),
        ("import grete\ngrete.App('a').consumer(", "max_in_flight (int, default 4096)"),
        ("import grete.client\ngrete.client.Producer(", "linger.ms (int, milliseconds, default 5)"),
        ("import grete\ngrete.Retry(", "backoff: "),
    ],
)
def test_jedi_shows_the_settings(code: str, wanted: str) -> None:
    project = jedi.Project(ROOT, added_sys_path=[str(ROOT / "python")])
    (shown,) = jedi.Script(code, project=project).get_signatures()
    assert wanted in " ".join(shown.docstring().split()).replace("( ", "(")
