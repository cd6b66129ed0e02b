"""Broker on one core, client on another: otherwise they measure each other."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Cores:
    """Which core serves and which core is measured."""

    broker: int = 0
    client: int = 1

    def check(self) -> None:
        """Refuses cores that this process may not use."""
        missing = {self.broker, self.client} - os.sched_getaffinity(0)
        if missing:
            raise SystemExit(f"core {min(missing)} is not available here: choose with --broker-core and --client-core")


@contextmanager
def pinned(core: int) -> Iterator[None]:
    """Pins the caller to a core, which processes started inside inherit; the caller gets its own cores back."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
