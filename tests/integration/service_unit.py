"""What systemd does with a unit, as far as those of the documentation need it: environment, credentials, notification.

A real manager needs a machine that has it as process 1.
"""

from __future__ import annotations

import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Self

from tests.kafka import eventually

_INSTALLED = "/opt/billing"
_START_SECONDS = 30.0


class ServiceUnit:
    """Process of the section [Service] of a unit. The end of the `with` kills what is left of it."""

    def __init__(self, text: str, directory: Path, **environment: str) -> None:
        """`directory` takes the place of /opt/billing, /run and /etc; `environment` is added to that of the unit."""
        section = text.partition("[Service]\n")[2].partition("\n[")[0]
        lines = [line for line in section.splitlines() if line and not line.startswith("#")]
        self._settings: dict[str, list[str]] = defaultdict(list)
        for line in lines:
            name, _, value = line.partition("=")
            self._settings[name].append(value)
        self._directory = directory
        self._credentials = directory / "credentials"
        self._credentials.mkdir(exist_ok=True)
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind(str(directory / "notify"))
        self._notified = ""
        self._environment = self._variables() | environment
        self.log = directory / "journal.txt"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                self._command(), cwd=directory, env=self._environment, stdout=log, stderr=log, start_new_session=True
            )

    def _variables(self) -> dict[str, str]:
        found = {name: os.environ[name] for name in ("PATH", "HOME", "LD_LIBRARY_PATH") if name in os.environ}
        for one in self._settings["LoadCredential"]:
            name, _, path = one.partition(":")
            (self._credentials / name).write_bytes((self._directory / Path(path).name).read_bytes())
        for one in self._settings["RuntimeDirectory"]:
            (self._directory / "run" / one).mkdir(parents=True, exist_ok=True)
        for one in self._settings["Environment"]:
            name, _, value = one.partition("=")
            found[name] = value.replace("%d", str(self._credentials))
        if self._settings["Type"][0].startswith("notify"):
            found["NOTIFY_SOCKET"] = str(self._directory / "notify")
        if watchdog := self._settings["WatchdogSec"]:
            found |= {"WATCHDOG_USEC": str(int(watchdog[0]) * 1_000_000)}
        return found

    def _command(self) -> list[str]:
        (line,) = self._settings["ExecStart"]
        line = line.replace("/run/", f"{self._directory}/run/")
        program, *words = shlex.split(line)
        assert program == f"{_INSTALLED}/venv/bin/grete"
        return [sys.executable, "-m", "grete", *words]

    def until_logged(self, pattern: str) -> None:
        """Waits for a line of the log."""
        eventually(lambda: re.search(pattern, self.log.read_text()), _START_SECONDS, self.log.read_text)

    def until_notified(self, text: str, times: int = 1) -> None:
        """Waits until the manager has got a text so many times."""

        def heard() -> bool:
            while True:
                try:
                    self._notified += self._socket.recv(4096, socket.MSG_DONTWAIT).decode() + "\n"
                except BlockingIOError:
                    return self._notified.count(text) >= times

        eventually(heard, _START_SECONDS, lambda: f"{text} not in {self._notified}\n{self.log.read_text()}")

    def reload(self) -> None:
        """Does what `systemctl reload` does for Type=notify-reload."""
        self.process.send_signal(signal.SIGHUP)

    def stop(self) -> int:
        """Does what `systemctl stop` does. Returns the exit status."""
        seconds = (self._settings["TimeoutStopSec"] or ["90s"])[0]
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(float(seconds.removesuffix("s")))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self._socket.close()
