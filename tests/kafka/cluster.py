"""What tests do with a cluster, whichever broker it is made of."""

from __future__ import annotations

import abc
import re
import signal
import subprocess
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol, Self

from .admin import TopicAdmin
from .ports import ReservedPort

# Of clusters whose `with` was left by an exception: their directories have gone by the time of the report.
_failed_sections: list[tuple[str, str]] = []
_live: weakref.WeakSet[KafkaCluster] = weakref.WeakSet()


def failure_logs() -> list[tuple[str, str]]:
    """(title, last log lines) for a failed test's report: of the clusters that it ended by failing (returned once), and
    of those that run.
    """
    sections = _failed_sections.copy()
    _failed_sections.clear()
    return sections + [cluster._log_section() for cluster in _live]


class ClusterNode(Protocol):
    """A broker of a cluster."""

    @property
    def id(self) -> int: ...
    @property
    def port(self) -> ReservedPort: ...
    @property
    def directory(self) -> Path: ...
    @property
    def process(self) -> subprocess.Popen[bytes] | None: ...
    @property
    def address(self) -> str: ...
    @property
    def running(self) -> bool: ...


class KafkaCluster(abc.ABC):
    """Brokers on loopback, numbered from 1; ready when the `with` is entered.

    Start one from a thread that lives as long as the cluster should: the kernel kills the brokers with it.
    """

    #: Topics of the brokers' own that clients see.
    internal_topics: tuple[str, ...] = ()
    #: Nodes by their ids.
    nodes: Mapping[int, ClusterNode]

    def __init__(self, version: str, nodes: int) -> None:
        self.version = version
        self._count = nodes
        self._admin: TopicAdmin | None = None
        # Called when ports are known and nothing has started yet: for a test that puts a proxy in front.
        self.before_start: Callable[[], object] = lambda: None

    def __enter__(self) -> Self:
        try:
            self._open()
            _live.add(self)
            self.before_start()
            self.start_all()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            _failed_sections.append(self._log_section())
        self.close()

    def close(self) -> None:
        """Kill the brokers and delete their data."""
        _live.discard(self)
        self._admin = None
        self._close()

    @abc.abstractmethod
    def _open(self) -> None:
        """Choose ports and make directories."""

    @abc.abstractmethod
    def _close(self) -> None: ...

    @abc.abstractmethod
    def start(self, node: int) -> None:
        """Start a node that was killed or stopped, on its old port and data; returns when it serves."""

    @abc.abstractmethod
    def start_all(self) -> None:
        """Start every node that does not run."""

    @abc.abstractmethod
    def stop(self, node: int, timeout: float = 30.0) -> None:
        """Let a node shut down in order (SIGTERM)."""

    @abc.abstractmethod
    def kill(self, node: int, sig: int = signal.SIGKILL) -> None:
        """Send a signal to a node, SIGKILL if none is named; SIGSTOP and SIGCONT make it hang and go on."""

    @abc.abstractmethod
    def log(self, node: int) -> str:
        """Everything that the node has logged."""

    @abc.abstractmethod
    def generations(self, group: str) -> list[int]:
        """The generations of the group that had members, in order, as the coordinator logged them."""

    @abc.abstractmethod
    def active_controller(self) -> int:
        """The node that is the active controller."""

    @abc.abstractmethod
    def elect_preferred(self, topic: str) -> None:
        """Let each partition be led by its first replica again; one that is, or cannot be, stays."""

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(node.address for node in self.nodes.values())

    def address(self, node: int) -> str:
        """host:port of one node."""
        return self.nodes[node].address

    def rebalance_lines(self, group: str) -> list[str]:
        """The brokers' log lines about rebalances of the group."""
        return [line for line in self._group_lines(group) if "rebalance" in line.lower()]

    def group_epochs(self, group: str) -> list[int]:
        """The epochs that a group of the consumer protocol (KIP-848) has had, by the brokers' logs."""
        found = (re.search(r"Bumped group epoch to (\d+)", line) for line in self._group_lines(group))
        return [int(epoch[1]) for epoch in found if epoch is not None]

    def broker_log_tail(self, lines: int = 40) -> str:
        """The last lines of each node's log."""
        tails = ((node, "\n".join(self.log(node).splitlines()[-lines:])) for node in self.nodes)
        return "\n".join(f"--- node {node}\n{tail}" for node, tail in tails)

    def _group_lines(self, group: str) -> list[str]:
        return [line for line in self._all_logs().splitlines() if group in line]

    def _all_logs(self) -> str:
        return "".join(self.log(node) for node in self.nodes)

    def _log_section(self) -> tuple[str, str]:
        return f"Kafka {self.version} at {self.bootstrap_servers}", self.broker_log_tail(60)

    @property
    def admin(self) -> TopicAdmin:
        """Topics, offsets and groups, through confluent-kafka."""
        if self._admin is None:
            self._admin = TopicAdmin(self.bootstrap_servers)
        return self._admin

    def create_topic(
        self,
        name: str,
        partitions: int = 1,
        replication: int | None = None,
        config: Mapping[str, object] | None = None,
    ) -> None:
        """Create a topic; returns when each partition has a leader."""
        self.admin.create_topic(name, partitions, replication or min(self._count, 3), config)
