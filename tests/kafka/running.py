"""A broker that runs already, as the cluster: what kills, stops or configures brokers is skipped."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import NoReturn

import pytest

from .cluster import KafkaCluster
from .ports import ReservedPort


class _Elsewhere:
    """The broker at an address."""

    id = 1
    process: subprocess.Popen[bytes] | None = None
    running = True

    def __init__(self, address: str) -> None:
        self.address = address

    @property
    def port(self) -> ReservedPort:
        _not_ours()

    @property
    def directory(self) -> Path:
        _not_ours()


class RunningCluster(KafkaCluster):
    """The brokers behind one HOST:PORT."""

    def __init__(self, address: str) -> None:
        super().__init__("as given", 1)
        self.nodes = {1: _Elsewhere(address)}

    def _open(self) -> None: ...

    def _close(self) -> None: ...

    def start_all(self) -> None: ...

    def start(self, node: int) -> None:
        _not_ours()

    def stop(self, node: int, timeout: float = 30.0) -> None:
        _not_ours()

    def kill(self, node: int, sig: int = signal.SIGKILL) -> None:
        _not_ours()

    def log(self, node: int) -> str:
        return f"the log of node {node} is not ours"

    def generations(self, group: str) -> list[int]:
        _not_ours()

    def rebalance_lines(self, group: str) -> list[str]:
        _not_ours()

    def group_epochs(self, group: str) -> list[int]:
        _not_ours()

    def elect_preferred(self, topic: str) -> None:
        _not_ours()

    def active_controller(self) -> int:
        _not_ours()


def _not_ours() -> NoReturn:
    pytest.skip("the broker of --kafka=HOST:PORT is not ours to start, stop or look into")
