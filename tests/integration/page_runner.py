"""Runs what a page of the documentation shows, in the order of the page.

- A block with a title is the file of that name: ```python title="billing.py".
- A block of bash is run. `grete dev`, `grete run` and `grete swarm` run in the background until the end of the page.
- A block of text behind a block of bash is its output. "..." stands for what differs each time. A command is repeated
  until its output is there.
- A block of Python without a title is run by itself, and YAML without a title is parsed.

Ports of the page become free ones. Commands that change the machine are indented on the pages, and are not run.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import yaml

from tests.kafka import eventually

DOCS = Path(__file__).parents[2] / "docs"
_FENCE = re.compile(r"^```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^```", re.MULTILINE | re.DOTALL)
_BACKGROUND = re.compile(r"(?:\w+=\S* )*(?:python manage\.py )?grete (?:dev|run|swarm)\b")
_PORTS = ("9092", "8080", "8000")
_SECONDS = 10.0


class Block(NamedTuple):
    """A fenced block of a page."""

    language: str
    title: str
    text: str
    line: int


def blocks(page: str) -> list[Block]:
    """Returns the fenced blocks of a page (relative to docs/)."""
    text = (DOCS / page).read_text()
    return [
        Block(match[1], match[2] or "", match[3], text[: match.start()].count("\n") + 1)
        for match in _FENCE.finditer(text)
    ]


class PageRunner:
    """Runs the blocks of a page in a directory."""

    def __init__(self, directory: Path, addresses: Mapping[str, str] | None = None) -> None:
        """`addresses`: what takes the place of the addresses on the page."""
        self._directory = directory
        self._addresses = addresses or {}
        self._last = ""
        self._running: list[tuple[str, subprocess.Popen[bytes]]] = []
        self._ports = {port: _free_port() for port in _PORTS}
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
        self._environment = {**os.environ, "PATH": path, "PYTHONPATH": str(directory), "COLUMNS": "120"}
        self._environment.pop("GRETE_CONFIG", None)
        self._environment["XDG_RUNTIME_DIR"] = str(directory)

    def write(self, page: str) -> None:
        """Writes the files of an earlier page, and runs nothing."""
        for block in blocks(page):
            if block.title:
                self._write(block)

    def run(self, page: str) -> None:
        """Runs a page. AssertionError names the line of what is not as the page shows it."""
        found = blocks(page)
        try:
            for block, following in zip(found, [*found[1:], None], strict=True):
                place = f"docs/{page}:{block.line}"
                if block.title:
                    self._write(block)
                elif block.language == "bash":
                    shown = following.text if following is not None and following.language == "text" else None
                    self._bash(place, self._here(block.text), shown)
                elif block.language == "python":
                    self._check(place, [sys.executable, "-c", self._here(block.text)])
                elif block.language == "yaml":
                    assert list(yaml.safe_load_all(block.text)), place
        except BaseException:
            self._end(checked=False)
            raise
        self._end(checked=True)

    def _here(self, text: str) -> str:
        for shown, real in self._addresses.items():
            text = text.replace(shown, real)
        for port, free in self._ports.items():
            text = re.sub(rf"\b{port}\b", str(free), text)
        return text

    def _write(self, block: Block) -> None:
        file = self._directory / block.title
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(self._here(block.text))

    def _bash(self, place: str, text: str, shown: str | None) -> None:
        for line in text.replace("\\\n", "").splitlines():
            line = line.strip()
            if not line or line.startswith("#"):
                continue
            if line.startswith("export "):
                name, _, value = line.removeprefix("export ").partition("=")
                self._environment[name] = value
            elif _BACKGROUND.match(line):
                self._start(place, line)
            elif shown is None:
                self._check(place, ["bash", "-c", line])
            else:
                self._await(place, line, _pattern(self._here(shown)))

    def _await(self, place: str, line: str, pattern: re.Pattern[str]) -> None:
        eventually(
            lambda: pattern.search(self._output(line)),
            _SECONDS,
            lambda: f"{place}: {line} does not print what the page shows, but:\n{self._last}",
        )

    def _output(self, line: str) -> str:
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self._directory,
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            text=True,
            check=False,
        )
        self._last = done.stdout
        return done.stdout

    def _check(self, place: str, command: list[str]) -> None:
        done = subprocess.run(
            command, cwd=self._directory, env=self._environment, capture_output=True, timeout=60, text=True, check=False
        )
        assert done.returncode == 0, f"{place}: {done.stdout}{done.stderr}"

    def _start(self, place: str, line: str) -> None:
        name = self._directory / f"log-{len(self._running)}.txt"
        with name.open("wb") as log:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {line}"], cwd=self._directory, env=self._environment, stdout=log, stderr=log
            )
        self._running.append((place, process))
        if "grete dev" not in line:
            # Before that, a signal would end it without a stop.
            eventually(lambda: b" runs: " in name.read_bytes(), _SECONDS, lambda: f"{place}: {name.read_text()}")
        else:
            port = self._ports["9092"]
            eventually(lambda: _accepts(port), _SECONDS, f"{place}: brokers")
            self._environment.setdefault("GRETE_KAFKA_BOOTSTRAP_SERVERS", f"127.0.0.1:{port}")

    def _end(self, *, checked: bool) -> None:
        ended = []
        for place, process in reversed(self._running):
            process.send_signal(signal.SIGTERM)
            try:
                ended.append((place, process.wait(45)))
            except subprocess.TimeoutExpired:
                process.kill()
                ended.append((place, process.wait()))
        self._running.clear()
        for log in sorted(self._directory.glob("log-*.txt")):
            sys.stderr.write(f"--- {log.name}\n{log.read_text(errors='replace')}")
        assert not checked or [one for one in ended if one[1] != 0] == []


def _pattern(shown: str) -> re.Pattern[str]:
    """What the page shows, as a pattern: any spaces, and anything for "..."."""
    lines = [
        r"[^\n]*?".join(r"[ ]+".join(re.escape(word) for word in part.split()) for part in line.split("..."))
        for line in shown.strip().splitlines()
    ]
    return re.compile(r"\s*\n\s*".join(lines))


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def _accepts(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        time.sleep(0)
        return False
    return True


def pages(folder: str) -> Iterator[str]:
    """Returns the pages of a folder of docs/ in the order of the navigation."""
    text = (DOCS.parent / "mkdocs.yml").read_text()
    yield from re.findall(rf"^ +- ({folder}/[\w-]+\.md)$", text, re.MULTILINE)
