"""`docker` for tests: notes its command lines, and runs Grete's embedded brokers instead of an image."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
# The process of a container. Its brokers make unknown topics, as Apache Kafka does by default.
CONTAINER = """
import signal
from grete.broker import Broker

with Broker(port={port}):
    print(flush=True)
    signal.pause()
"""


class FakeEngine:
    """An executable in a directory of its own. `name`: docker or podman. `error`: text with which `run` fails."""

    def __init__(self, directory: Path, name: str = "docker", error: str = "") -> None:
        self.path = directory
        self._calls = directory / "calls"
        command = f"from tests.unit.fake_container_engine import main; main({str(self._calls)!r}, {error!r})"
        script = directory / name
        script.write_text(f"#!{sys.executable}\nimport sys; sys.path.insert(0, {str(ROOT)!r})\n{command}\n")
        script.chmod(0o755)

    @property
    def calls(self) -> list[list[str]]:
        """The arguments of each call."""
        return [json.loads(line) for line in self._calls.read_text().splitlines()]


def main(calls: str, error: str) -> None:
    """Does what the command line says."""
    arguments = sys.argv[1:]
    with Path(calls).open("a") as file:
        file.write(json.dumps(arguments) + "\n")
    if error:
        sys.exit(error)
    if arguments[0] == "run":
        port = int(arguments[arguments.index("--publish") + 1].split(":")[1])
        process = subprocess.Popen(
            [sys.executable, "-c", CONTAINER.format(port=port)],
            env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert process.stdout is not None
        process.stdout.readline()  # the brokers serve
        print("a line of the engine")
        print(process.pid)
    elif arguments[0] == "rm":
        os.kill(int(arguments[-1]), signal.SIGKILL)
