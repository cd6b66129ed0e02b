"""python -m release.audit: known weaknesses, licences and sources of all dependencies.

Both databases of known weaknesses are read over the network. Where they cannot be reached, the output says so; with
--required that is an error.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tomllib

from .licenses import ROOT
from .wheels import tool

CARGO_TOOLS = ROOT / "build" / "cargo-tools"
# How the tools say that their database is out of reach. pip-audit skips each package that its database does not know.
UNREACHABLE = ("failed to fetch advisory database", "Dependency not found on PyPI", "ConnectionError", "Max retries")


def main() -> int:
    """Exit status 1 if something is found."""
    parser = argparse.ArgumentParser(prog="release.audit", description=__doc__)
    parser.add_argument("--required", action="store_true", help="fail where a database cannot be reached")
    options = parser.parse_args()
    deny = CARGO_TOOLS / "bin" / "cargo-deny"
    if not deny.exists():
        install = ["cargo", "install", "--quiet", "--locked", "--root", str(CARGO_TOOLS), "cargo-deny"]
        subprocess.run(install, check=True)
    results = [
        check("licences, sources, banned crates", [str(deny), "check", "licenses", "bans", "sources"], False),
        check("known weaknesses of crates", [str(deny), "check", "advisories"], not options.required),
        check("known weaknesses of Python packages", pip_audit(), not options.required),
    ]
    return int(not all(results))


def pip_audit() -> list[str]:
    """Returns the command that checks what users install: the dependencies, and those of the extras for users."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    ours = [one for name, many in extras.items() if name not in ("test", "lint", "release") for one in many]
    wanted = ROOT / "build" / "audited.txt"
    wanted.parent.mkdir(exist_ok=True)
    wanted.write_text("\n".join([*project["dependencies"], *ours]) + "\n")
    return [tool("pip-audit"), "--progress-spinner", "off", "--requirement", str(wanted)]


def check(what: str, command: list[str], may_be_unreachable: bool) -> bool:
    """Runs a check and prints its result. Returns False if something was found."""
    done = subprocess.run(command, cwd=ROOT, check=False, capture_output=True, text=True)
    said = done.stdout + done.stderr
    if any(sign in said for sign in UNREACHABLE):
        print(f"{what}: NOT CHECKED: the database cannot be reached from here", file=sys.stderr)
        return may_be_unreachable
    if done.returncode:
        print(f"{what}: found\n{said}", file=sys.stderr)
        return False
    print(f"{what}: nothing found")
    return True


if __name__ == "__main__":
    raise SystemExit(main())
