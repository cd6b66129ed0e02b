"""Broker, App that works and fails, and the pages of `grete web`, with records that come without end."""

import json
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from grete.client import Producer

_TOPICS = ("orders:4", "invoices:4", "clicks:3")


@contextmanager
def shop() -> Iterator[tuple[str, str]]:
    """Runs all of it. Yields the address of the broker and that of the pages."""
    broker, web = _free_port(), _free_port()
    words = [word for topic in _TOPICS for word in ("--topic", topic)]
    directory = tempfile.TemporaryDirectory(prefix="shop-")
    # Stacks show where the file is: pictures must not show the directories of who takes them.
    shutil.copy(Path(__file__).with_name("shop.py"), directory.name)
    command = [sys.executable, "-m", "grete", "dev", "shop:app", "--no-reload", "--port", str(broker)]
    process = subprocess.Popen([*command, "--web", str(web), *words], cwd=directory.name)
    ended = threading.Event()
    load = threading.Thread(target=_write, args=(f"127.0.0.1:{broker}", ended))
    try:
        load.start()
        yield f"127.0.0.1:{broker}", f"http://127.0.0.1:{web}"
    finally:
        ended.set()
        load.join()
        process.terminate()
        process.wait()
        directory.cleanup()


def _write(servers: str, ended: threading.Event) -> None:
    """Writes orders and clicks, some with markup in them, until the end."""
    number = 0
    with Producer({"bootstrap.servers": servers}) as producer:
        while not ended.wait(0.1):
            for _ in range(20):
                number += 1
                order = {"id": number, "amount": random.randrange(1, 2000), "note": "<script>alert(1)</script>"}
                producer.produce("orders", json.dumps(order).encode(), key=b"customer-%d" % (number % 300))
                producer.produce("clicks", b"slow" if number == 400 else b"<img src=x onerror=alert(1)>")


def _free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port
