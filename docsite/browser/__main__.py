"""Checks pages of build/site in Chromium: `make docs-check`. Pictures of them are in build/site-pictures.

Needs Chromium (Debian: apt-get install chromium; or the path in CHROMIUM), Node.js and npm. npm brings axe-core and
playwright-core into build/browser.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from docsite.outside import ROOT

# One of each kind, and those that are made in a special way.
PAGES = (
    "index.html",
    "tutorial/quick-start.html",
    "guides/kubernetes.html",
    "configuration.html",
    "errors/brokers.html",
    "cli/topics.html",
    "api/app.html",
    "benchmarks.html",
    "architecture/how-a-record-travels.html",
)


def main() -> int:
    """Runs the check. Returns the exit status."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    missing = [name for name, found in (("chromium", chromium), ("node", shutil.which("node"))) if not found]
    if not shutil.which("npm"):
        missing.append("npm")
    if missing or chromium is None:
        sys.stderr.write(
            f"make docs-check needs {' and '.join(missing)}: on Debian, apt-get install chromium nodejs npm; CHROMIUM "
            "names a browser elsewhere\n"
        )
        return 1
    here, packages = Path(__file__).parent, ROOT / "build" / "browser"
    packages.mkdir(parents=True, exist_ok=True)
    shutil.copy(here / "package.json", packages)
    if not (packages / "node_modules" / "axe-core").is_dir():
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=packages, check=True)
    site, pictures = ROOT / "build" / "site", ROOT / "build" / "site-pictures"
    done = subprocess.run(
        ["node", str(here / "check.mjs"), str(site), str(pictures), chromium, *PAGES], cwd=packages, check=False
    )
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
