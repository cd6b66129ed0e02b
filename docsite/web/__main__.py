"""Walks the pages of `grete web` in Chromium, beside an App that works and fails: `make web-check`.

Needs Chromium (or its path in CHROMIUM), Node.js and npm. Pictures are in build/web-pictures. Arguments: names of
pages, as those of the pictures, instead of all.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from docsite.outside import ROOT
from docsite.web.running_shop import shop

# Seconds of work before the walk, so that charts have something to show.
WORK = 100.0


def main() -> int:
    """Runs the walk. Returns the exit status."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None or not shutil.which("node") or not shutil.which("npm"):
        sys.stderr.write("make web-check needs chromium, node and npm; CHROMIUM names a browser elsewhere\n")
        return 1
    packages = ROOT / "build" / "browser"
    packages.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "docsite" / "browser" / "package.json", packages)
    if not (packages / "node_modules" / "axe-core").is_dir():
        subprocess.run(["npm", "install", "--silent", "--no-audit", "--no-fund"], cwd=packages, check=True)
    with shop() as (_, web):
        time.sleep(WORK)
        walk, pictures = Path(__file__).with_name("walk.mjs"), ROOT / "build" / "web-pictures"
        done = subprocess.run(
            ["node", str(walk), web, str(pictures), chromium, *sys.argv[1:]], cwd=packages, check=False
        )
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
