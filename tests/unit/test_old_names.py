"""Old public names, which CHANGELOG.md lists, stand in no document and no example."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
# A cell of a table may hold several names.
_NAME = re.compile(r"`([A-Za-z_][\w.]*)`")
# Pages about names, and about other libraries.
_EXEMPT = ("docs/adr/0001-names.md", "docs/migration/", "examples/migration/")
_SUFFIXES = (".md", ".py", ".yml", ".yaml", ".json", ".toml", ".service", ".ipynb")


def _old_names() -> list[str]:
    section = (ROOT / "CHANGELOG.md").read_text().split("### Changed names\n")[1].split("\n### ")[0]
    rows = [line.split("|")[1:3] for line in section.splitlines() if line.startswith("|")]
    new = {name for _, cell in rows for name in _NAME.findall(cell)}
    return [name for cell, _ in rows for name in _NAME.findall(cell) if name not in new]


def _pattern(name: str) -> str:
    """Returns a pattern for the name in code. A word of English counts only as a setting, or between backquotes."""
    if name.islower() and name.isalpha():
        return rf"`{name}`|\b{name}=[\"\d]|\"{name}\"|^{name} = |\broute's {name}\b"
    *_, last = name.rsplit(".", 1)
    # Classes and attributes are written without their module, too.
    alone = rf"|`{last}`|\bgrete\.{last}\b" if last[0].isupper() else ""
    listener = rf"|\bon_{name.replace('.', '_')}\b" if "." in name and name.islower() else ""
    return rf"(?<![\w.-]){re.escape(name)}(?![\w(-]|\.\w){alone}{listener}"


def found_in(text: str, names: list[str]) -> list[str]:
    return [name for name in names if re.search(_pattern(name), text, re.MULTILINE)]


def test_the_search_finds_names_and_leaves_words_alone() -> None:
    names = _old_names()
    assert {"expire", "steady_after", "app.blocked", "grete.QueueFull", "grete_group_steady"} <= set(names)
    assert "grete.instrumentation.Event" not in names, "the name has another meaning now"
    for text in (
        '@app.consumer("a", expire="1h")',
        "older than `expire`",
        "route's expire",
        "| `steady` |",
        "on_app_blocked",
    ):
        assert found_in(text, names), text
    assert found_in("records expire; a steady load; app.blocked_by; grete.QueueFullness", names) == []


def test_no_old_name_is_left() -> None:
    files = [ROOT / "README.md", *(path for folder in ("docs", "examples") for path in (ROOT / folder).rglob("*"))]
    old, left = _old_names(), {}
    for path in files:
        name = path.relative_to(ROOT).as_posix()
        if path.suffix in _SUFFIXES and not name.startswith(_EXEMPT) and (found := found_in(path.read_text(), old)):
            left[name] = found
    assert left == {}
