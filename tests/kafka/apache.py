"""Apache Kafka as the cluster: one or three nodes on loopback."""

from __future__ import annotations

import contextlib
import re
import signal
from collections.abc import Iterable, Mapping
from pathlib import Path

from . import probe
from .cluster import KafkaCluster
from .jars import KafkaJars, exclusive
from .node import Node, NodeFailedError
from .storage import RunDirectory, format_storage, new_id, write_properties
from .waiting import Deadline, eventually


class ApacheCluster(KafkaCluster):
    """Real Apache Kafka in KRaft mode, each node broker and controller at once.

    version: a release of `jars.VERSIONS` (any in Maven Central works); None = KAFKA_VERSION, else the default.
    nodes: 1, or 3 (replication factor 3, min.insync.replicas 2).
    properties: broker settings over those of the harness.
    cpus: the cores for the brokers. heap: the JVM's -Xmx.
    fast_start: quick JIT only and a class archive, for tests; False for measurements, which want the full JIT.
    start_timeout: seconds until all nodes must serve.

    Start one from a thread that lives as long as the cluster should: the kernel kills the brokers with it.
    """

    internal_topics = ("__consumer_offsets",)

    def __init__(
        self,
        version: str | None = None,
        nodes: int = 1,
        properties: Mapping[str, object] | None = None,
        cpus: Iterable[int] | None = None,
        heap: str | None = None,
        *,
        fast_start: bool = True,
        start_timeout: float = 90.0,
    ) -> None:
        self.jars = KafkaJars(version)
        super().__init__(self.jars.version, nodes)
        self._properties = {name: str(value) for name, value in (properties or {}).items()}
        self._cpus = None if cpus is None else frozenset(cpus)
        self._heap = heap or ("1g" if nodes == 1 else "512m")
        self._fast_start = fast_start
        self._start_timeout = start_timeout
        self._extra_jvm: list[str] = []
        self._directory: RunDirectory | None = None
        self.nodes: dict[int, Node] = {}

    def _open(self) -> None:
        self.jars.ensure()
        if self._fast_start and not self._extra_jvm:
            ensure_archive(self.jars)
        self._lay_out()

    def _close(self) -> None:
        for node in self.nodes.values():
            node.close()
        if self._directory is not None:
            self._directory.remove()

    def start(self, node: int) -> None:
        deadline = Deadline(self._start_timeout)
        self.nodes[node].launch()
        self._wait_ready([self.nodes[node]], deadline)

    def start_all(self) -> None:
        deadline = Deadline(self._start_timeout)
        stopped = [node for node in self.nodes.values() if not node.running]
        for node in stopped:
            node.launch()
        self._wait_ready(stopped, deadline)

    def stop(self, node: int, timeout: float = 30.0) -> None:
        self.nodes[node].stop(timeout)

    def kill(self, node: int, sig: int = signal.SIGKILL) -> None:
        self.nodes[node].kill(sig)

    def log(self, node: int) -> str:
        return self.nodes[node].log()

    def generations(self, group: str) -> list[int]:
        found = re.findall(rf"Stabilized group {re.escape(group)} generation (\d+)", self._all_logs())
        return [int(generation) for generation in found]

    def active_controller(self) -> int:
        def epoch(node: int) -> int:
            found = re.findall(r"Becoming the active controller at epoch (\d+)", self.log(node))
            return max(map(int, found), default=0)

        return max(self.nodes, key=epoch)

    def elect_preferred(self, topic: str) -> None:
        port = next(iter(self.nodes.values())).port
        probe.elect_preferred(port.host, port.number, topic, self.admin.partitions(topic))

    def _lay_out(self) -> None:
        self._directory = RunDirectory()
        jvm = [f"-Xmx{self._heap}", "-Djava.awt.headless=true", *self._jit_options(), *self._extra_jvm]
        for node_id in range(1, self._count + 1):
            path = self._directory.path / f"node-{node_id}"
            self.nodes[node_id] = Node(node_id, path, self.jars, jvm, self._cpus)
        voters = ",".join(f"{node.id}@127.0.0.1:{node.controller_port.number}" for node in self.nodes.values())
        cluster_id = new_id()
        for node in self.nodes.values():
            data = node.directory / "data"
            format_storage(self.jars, data, cluster_id, node.id)
            write_properties(node.properties_file, self._node_properties(node, voters, data))

    def _jit_options(self) -> list[str]:
        if not self._fast_start:
            return ["-XX:+UseG1GC"]
        options = ["-XX:TieredStopAtLevel=1", "-Xshare:auto"]
        archive = archive_path(self.jars)
        if not self._extra_jvm and archive.exists() and archive.stat().st_size > 0:
            options.append(f"-XX:SharedArchiveFile={archive}")
        return options

    def _node_properties(self, node: Node, voters: str, data: Path) -> dict[str, str]:
        replicas = min(self._count, 3)
        in_sync = min(replicas, 2)
        settings: dict[str, object] = {
            "process.roles": "broker,controller",
            "node.id": node.id,
            "controller.quorum.voters": voters,
            "listeners": f"PLAINTEXT://{node.address},CONTROLLER://127.0.0.1:{node.controller_port.number}",
            "advertised.listeners": f"PLAINTEXT://{node.address}",
            "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
            "inter.broker.listener.name": "PLAINTEXT",
            "controller.listener.names": "CONTROLLER",
            "log.dirs": data,
            "auto.create.topics.enable": "false",
            "default.replication.factor": replicas,
            "min.insync.replicas": in_sync,
            # Internal topics are made at first use: few partitions are made sooner.
            "offsets.topic.num.partitions": 4,
            "offsets.topic.replication.factor": replicas,
            "transaction.state.log.num.partitions": 4,
            "transaction.state.log.replication.factor": replicas,
            "transaction.state.log.min.isr": in_sync,
            # Transactions that were left open are aborted soon after their time is up.
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": 500,
            "group.initial.rebalance.delay.ms": 0,
            # Tests of dead members do not want to wait 6 s or more for the session to end.
            "group.min.session.timeout.ms": 500,
            # And members hear soon of a change of their group.
            "group.consumer.heartbeat.interval.ms": 300,
            "group.consumer.min.heartbeat.interval.ms": 100,
            # A broker that was killed registers again only after its old session has ended (9 s if left alone).
            "broker.session.timeout.ms": 3000,
            "broker.heartbeat.interval.ms": 500,
            # A record of 20 MB is a test.
            "message.max.bytes": 64 << 20,
            "replica.fetch.max.bytes": 64 << 20,
            # Records with old timestamps stay.
            "log.retention.ms": -1,
            "log.cleaner.backoff.ms": 200,
            "log.cleaner.dedupe.buffer.size": 16 << 20,
            "log.initial.task.delay.ms": 500,
            "num.network.threads": 2,
            "num.io.threads": 4,
        }
        merged = {name: str(value) for name, value in settings.items()} | self._properties
        if "broker.rack" in merged:
            racks = merged["broker.rack"].split(",")
            # As with the embedded brokers: one rack, or one for each broker.
            merged["broker.rack"] = racks[(node.id - 1) % len(racks)]
        return merged

    def _wait_ready(self, nodes: list[Node], deadline: Deadline) -> None:
        for node in nodes:
            node.wait_ready(deadline)
        expected = {node.id for node in self.nodes.values() if node.running}

        def all_known() -> bool:
            for node in nodes:
                with contextlib.suppress(OSError, probe.ProbeError):
                    if not expected <= probe.brokers(node.port.host, node.port.number):
                        return False
                    continue
                return False
            return True

        eventually(all_known, deadline.left, lambda: f"brokers {expected} know each other\n{self.broker_log_tail()}")


def archive_path(jars: KafkaJars) -> Path:
    """The JVM's class archive for these jars: a broker that maps it starts in half the time.

    An empty file stands for "this JVM makes none"; the JVM ignores one that does not fit the jars or itself.
    """
    return jars.directory / "broker.jsa"


def ensure_archive(jars: KafkaJars) -> None:
    """Make the class archive, if there is none, by one broker's start and orderly stop."""
    path = archive_path(jars)
    if path.exists():
        return
    with exclusive(jars.directory / "archive.lock"):
        if path.exists():
            return
        fresh = path.with_suffix(".new")
        cluster = ApacheCluster(jars.version)
        cluster._extra_jvm = [f"-XX:ArchiveClassesAtExit={fresh}"]
        with cluster, contextlib.suppress(NodeFailedError):
            cluster.stop(1, timeout=60.0)
        if not fresh.exists():
            fresh.touch()
        fresh.rename(path)
