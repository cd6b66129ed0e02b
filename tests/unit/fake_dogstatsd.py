"""An agent that takes datagrams, and reads them as the protocol has it."""

from __future__ import annotations

import contextlib
import re
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

LINE = re.compile(r"([A-Za-z][A-Za-z0-9_.]*):([^|]+)\|([cgdh])(?:\|#([^|\n]+))?")


class Metric(NamedTuple):
    """A line."""

    name: str
    values: list[float]
    kind: str
    tags: dict[str, str]


class Agent:
    """Over UDP, or with a path over a Unix socket."""

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
            self.socket.bind(("127.0.0.1", 0))
            self.address = "127.0.0.1:{1}".format(*self.socket.getsockname())
        else:
            self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            self.socket.bind(str(path))
            self.address = f"unix://{path}"
        self.socket.setblocking(False)
        self.sizes: list[int] = []

    def take(self) -> list[Metric]:
        """What has come since the last time."""
        metrics = []
        with contextlib.suppress(BlockingIOError):
            while True:
                datagram = self.socket.recv(1 << 16)
                self.sizes.append(len(datagram))
                metrics += [parse(line) for line in datagram.decode().split("\n")]
        return metrics

    def wait(self, timeout: float = 30.0) -> list[Metric]:
        """As `take`, once something has come."""
        self.socket.settimeout(timeout)
        self.sizes.append(len(datagram := self.socket.recv(1 << 16)))
        self.socket.setblocking(False)
        return [parse(line) for line in datagram.decode().split("\n")] + self.take()


@contextlib.contextmanager
def agent(path: Path | None = None) -> Iterator[Agent]:
    """One that is gone at the end."""
    made = Agent(path)
    try:
        yield made
    finally:
        made.socket.close()
        if path is not None:
            path.unlink(missing_ok=True)


def parse(line: str) -> Metric:
    """AssertionError for what an agent would not understand."""
    found = LINE.fullmatch(line)
    assert found is not None, line
    name, values, kind, tags = found.groups()
    pairs = [tag.split(":", 1) for tag in (tags or "").split(",") if tag]
    assert len({pair[0] for pair in pairs}) == len(pairs), line
    numbers = [float(value) for value in values.split(":")]
    assert kind in "dh" or len(numbers) == 1, line
    return Metric(name, numbers, kind, {key: "".join(value) for key, *value in pairs})
