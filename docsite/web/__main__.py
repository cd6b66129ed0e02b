"""Walks the pages of `grete web` in Chromium, beside an App that works and fails: `make web-check`.

Needs Chromium (or its path in CHROMIUM), Node.js and npm. Pictures are in build/web-pictures.
"""

import json
import os
import random
import shutil
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

from docsite.outside import ROOT
from grete.client import Producer

# Seconds of work before the walk, so that charts have something to show.
WORK = 100.0
_TOPICS = ("orders:4", "invoices:4", "clicks:3")


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
    broker, web = free_port(), free_port()
    words = [word for topic in _TOPICS for word in ("--topic", topic)]
    command = [sys.executable, "-m", "grete", "dev", "docsite.web.shop:app", "--no-reload", "--port", str(broker)]
    process = subprocess.Popen([*command, "--web", str(web), *words], cwd=ROOT)
    ended = threading.Event()
    load = threading.Thread(target=write, args=(f"127.0.0.1:{broker}", ended))
    try:
        load.start()
        time.sleep(WORK)
        walk, pictures = Path(__file__).with_name("walk.mjs"), ROOT / "build" / "web-pictures"
        done = subprocess.run(
            ["node", str(walk), f"http://127.0.0.1:{web}", str(pictures), chromium], cwd=packages, check=False
        )
        return done.returncode
    finally:
        ended.set()
        load.join()
        process.terminate()
        process.wait()


def write(servers: str, ended: threading.Event) -> None:
    """Writes orders and clicks, some with markup in them, until the end."""
    number = 0
    with Producer({"bootstrap.servers": servers}) as producer:
        while not ended.wait(0.1):
            for _ in range(20):
                number += 1
                order = {"id": number, "amount": random.randrange(1, 2000), "note": "<script>alert(1)</script>"}
                producer.produce("orders", json.dumps(order).encode(), key=b"customer-%d" % (number % 300))
                producer.produce("clicks", b"slow" if number == 400 else b"<img src=x onerror=alert(1)>")


def free_port() -> int:
    """Returns a port that is free."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


if __name__ == "__main__":
    sys.exit(main())
