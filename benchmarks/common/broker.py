"""One Kafka broker, pinned, for as long as a benchmark runs."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from tests.kafka import ApacheCluster
from tests.kafka.admin import TopicAdmin


@dataclass(frozen=True)
class Broker:
    """A broker: address, version, settings."""

    bootstrap: str
    version: str
    settings: str
    admin: TopicAdmin
    # SIGSTOP makes it hang, SIGCONT lets it go on; None if it is not ours.
    kill: Callable[[signal.Signals], None] | None = None


@contextmanager
def broker(bootstrap: str | None, core: int) -> Iterator[Broker]:
    """A fresh Apache Kafka on `core`, or the one that already listens on `bootstrap` (then pinning it is yours)."""
    if bootstrap is not None:
        yield Broker(bootstrap, "as given", "not started by this run", TopicAdmin(bootstrap))
        return
    # A broker that was stopped for some seconds is still a member of its cluster.
    patient = {"broker.session.timeout.ms": 30_000}
    with ApacheCluster(cpus={core}, heap="2g", fast_start=False, properties=patient) as kafka:
        settings = f"KRaft, one node, -Xmx2g, G1, core {core}"
        yield Broker(kafka.bootstrap_servers, kafka.version, settings, kafka.admin, lambda sig: kafka.kill(1, sig))
