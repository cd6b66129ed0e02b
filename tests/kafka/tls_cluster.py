"""Apache Kafka with listeners for TLS and for mutual TLS."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .apache import ApacheCluster
from .certificates import Authority, Identity
from .node import Node
from .ports import ReservedPort


class TlsCluster(ApacheCluster):
    """A broker with the listeners PLAINTEXT, TLS and MUTUAL. `options`: those of ApacheCluster."""

    def __init__(self, version: str | None, authority: Authority, broker: Identity, **options: Any) -> None:
        super().__init__(version, **options)
        self.tls, self.mutual = ReservedPort(), ReservedPort()
        self.authority, self.broker = authority, broker

    def _node_properties(self, node: Node, voters: str, data: Path) -> dict[str, str]:
        settings = super()._node_properties(node, voters, data)
        for name, port in (("TLS", self.tls), ("MUTUAL", self.mutual)):
            for setting in ("listeners", "advertised.listeners"):
                settings[setting] += f",{name}://localhost:{port.number}"
            settings["listener.security.protocol.map"] += f",{name}:SSL"
        return settings | {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker.keystore),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": str(self.authority.file),
            "listener.name.mutual.ssl.client.auth": "required",
        }

    def _close(self) -> None:
        super()._close()
        for port in (self.tls, self.mutual):
            port.release()
