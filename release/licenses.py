"""Licences of the crates that are linked into the native module."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
_NAMES = ("license", "licence", "copying", "notice", "unlicense")


def third_party_licenses(triple: str) -> str:
    """Returns the names, versions and licence texts of all foreign crates in a wheel. Each text appears once.

    Raises SystemExit if a crate states no licence, or comes without a text.
    """
    users: dict[str, list[str]] = {}
    lines = []
    for crate in sorted(linked_crates(triple), key=lambda one: (one["name"], one["version"])):
        title = f"{crate['name']} {crate['version']}"
        folder = Path(crate["manifest_path"]).parent
        texts = sorted(path for path in folder.iterdir() if path.is_file() and path.name.lower().startswith(_NAMES))
        if not crate["license"] and not texts:
            raise SystemExit(f"{title} states no licence: it cannot be shipped")
        lines.append(f"{title}: {crate['license'] or 'see its text'}")
        for path in texts:
            users.setdefault(path.read_text(errors="replace").strip(), []).append(f"{title} ({path.name})")
    parts = ["Crates that are linked into Grete's native module, and their licences.\n\n" + "\n".join(lines)]
    parts += [f"{', '.join(names)}:\n\n{text}" for text, names in users.items()]
    return f"\n\n{'=' * 100}\n\n".join(parts) + "\n"


def linked_crates(triple: str) -> Iterator[Mapping[str, Any]]:
    """Yields the foreign crates that `grete-py` links: no build scripts, no procedural macros, no test tools."""
    command = ["cargo", "metadata", "--format-version=1", "--locked", f"--filter-platform={triple}"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    nodes = {node["id"]: node for node in metadata["resolve"]["nodes"]}
    waiting = [package["id"] for package in packages.values() if package["name"] == "grete-py"]
    seen: set[str] = set()
    while waiting:
        this = waiting.pop()
        if this in seen or any("proc-macro" in target["kind"] for target in packages[this]["targets"]):
            continue
        seen.add(this)
        if packages[this]["source"] is not None:
            yield packages[this]
        linked = (one for one in nodes[this]["deps"] if any(kind["kind"] is None for kind in one["dep_kinds"]))
        waiting += [dependency["pkg"] for dependency in linked]
