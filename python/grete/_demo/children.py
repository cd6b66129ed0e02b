"""Processes of the demo: the swarm, and commands that end by themselves."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TypedDict

from grete._swarm.control import client
from grete._swarm.control.client import ControlError
from grete._swarm.status.snapshot import Status

NODES = 2
SHUTDOWN_TIMEOUT = 5
"""Seconds that running handlers have for a stop."""
TARGET = "grete._demo.observed_app:app"
_STATUS_TIMEOUT = 1.0


class Failure(TypedDict):
    """Line of `observed_app`."""

    at: float
    partition: int
    first_offset: int
    last_offset: int
    attempt: int
    error: str


def spawn(
    words: list[str], directory: Path, stdout: int, stderr: int, settings: Mapping[str, str] | None = None
) -> "subprocess.Popen[bytes]":
    """Starts `grete WORDS` with this interpreter, in `directory`. The process does not outlive this one.

    Settings of the user's shell and of a `grete.toml` in the user's directory do not apply. Ctrl-C of the terminal does
    not reach the process. `settings`: variables of its environment.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith("GRETE_")}
    # Relative paths would point elsewhere in the other directory.
    environment |= settings or {}
    environment["PYTHONPATH"] = os.pathsep.join(str(Path(path).absolute()) for path in sys.path)
    return subprocess.Popen(
        [sys.executable, "-m", "grete._cli.app_child", str(os.getpid()), *words],
        cwd=directory,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=stdout,
        stderr=stderr,
        process_group=0,
    )


class Swarm:
    """Process of `grete swarm`. Its log goes to `swarm-app.log` in the directory of the demo."""

    def __init__(self, bootstrap_servers: str, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self._control = directory / "control.sock"
        words = ["swarm", TARGET, "--bootstrap", bootstrap_servers, "--nodes", str(NODES)]
        words += ["--control", str(self._control), "--shutdown-timeout", f"{SHUTDOWN_TIMEOUT}s"]
        words += ["-k", "auto.commit.interval.ms=1000"]  # few repeated orders after a kill
        with (directory / "swarm-app.log").open("wb") as log:
            self._process = spawn(words, directory, subprocess.PIPE, log.fileno(), settings)
        assert self._process.stdout is not None
        self._lines = self._process.stdout
        os.set_blocking(self._lines.fileno(), False)
        self._partial = b""
        self.failures: list[Failure] = []
        """Failures of handlers so far."""

    def read_failures(self) -> None:
        """Reads the lines that nodes have written since the last call."""
        while data := self._read():
            *lines, self._partial = (self._partial + data).split(b"\n")
            self.failures.extend(json.loads(line) for line in lines)

    def _read(self) -> bytes:
        try:
            return os.read(self._lines.fileno(), 1 << 16)
        except BlockingIOError:
            return b""

    def status(self) -> Status | None:
        """Returns the state of the nodes; None: the supervisor does not respond, for example because it starts."""
        try:
            return client.send_request(self._control, {"do": "status"}, _STATUS_TIMEOUT)  # type: ignore[return-value]
        except ControlError:
            return None

    def exit_status(self) -> int | None:
        """Returns the exit status; None: the supervisor runs. A negative one is the signal that ended it."""
        return self._process.poll()

    def terminate(self) -> None:
        """Begins a stop: handlers finish, offsets are committed, nodes leave the group."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def close(self) -> None:
        """Ends the supervisor by force, if it runs. The kernel ends its nodes with it."""
        self._process.kill()
        self._process.wait()
        self._lines.close()
