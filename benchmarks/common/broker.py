"""One Kafka broker, pinned, for as long as a benchmark runs."""

from __future__ import annotations

import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kafka import ApacheCluster
from tests.kafka.admin import TopicAdmin
from tests.kafka.certificates import Authority
from tests.kafka.tls_cluster import TlsCluster


@dataclass(frozen=True)
class Tls:
    """Listener for TLS: its address, and the file of the authority that signed its certificate."""

    bootstrap: str
    authority: Path

    def librdkafka_settings(self) -> list[str]:
        """Settings as librdkafka and Grete have them, for a command line."""
        return ["security.protocol=SSL", f"ssl.ca.location={self.authority}"]

    def java_settings(self) -> list[str]:
        """Settings as Java's clients have them, for a command line."""
        return ["security.protocol=SSL", "ssl.truststore.type=PEM", f"ssl.truststore.location={self.authority}"]


@dataclass(frozen=True)
class Broker:
    """A broker: address, version, settings."""

    bootstrap: str
    version: str
    settings: str
    admin: TopicAdmin
    # SIGSTOP makes it hang, SIGCONT lets it go on; None if it is not ours.
    kill: Callable[[signal.Signals], None] | None = None
    # None: the measured clients connect in plain text.
    tls: Tls | None = None


@contextmanager
def broker(bootstrap: str | None, core: int, tls: bool = False) -> Iterator[Broker]:
    """A fresh Apache Kafka on `core`, or the one that already listens on `bootstrap` (then pinning it is yours).

    `tls`: the fresh one also has a listener for TLS.
    """
    if bootstrap is not None:
        yield Broker(bootstrap, "as given", "not started by this run", TopicAdmin(bootstrap))
        return
    # A broker that was stopped for some seconds is still a member of its cluster.
    patient = {"broker.session.timeout.ms": 30_000}
    settings = f"KRaft, one node, -Xmx2g, G1, core {core}"
    if tls:
        with (
            tempfile.TemporaryDirectory() as directory,
            _tls_cluster(Path(directory), core, patient) as kafka,
        ):
            listener = Tls(f"localhost:{kafka.tls.number}", kafka.authority.file)
            yield Broker(kafka.bootstrap_servers, kafka.version, settings, kafka.admin, None, listener)
        return
    with ApacheCluster(cpus={core}, heap="2g", fast_start=False, properties=patient) as kafka:
        yield Broker(kafka.bootstrap_servers, kafka.version, settings, kafka.admin, lambda sig: kafka.kill(1, sig))


def _tls_cluster(directory: Path, core: int, properties: dict[str, int]) -> TlsCluster:
    authority = Authority(directory, "Kafka CA")
    identity = authority.sign("broker")
    return TlsCluster(None, authority, identity, cpus={core}, heap="2g", fast_start=False, properties=properties)
