"""Apache Kafka with listeners for logins, and tokens for them."""

from __future__ import annotations

import base64
import json
import time
from pathlib import Path

from tests.kafka import ApacheCluster, chosen
from tests.kafka.certificates import Authority, Identity
from tests.kafka.node import Node
from tests.kafka.ports import ReservedPort

PASSWORD = "secret-1"
SESSION_MS = 3000
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER")


def token(life: float = 600.0, subject: str = "alice", begin: float = 0.0) -> str:
    """An unsecured token, as brokers for development accept them. `begin`: seconds until it is valid."""

    def encode(part: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    now = time.time()
    return f"{encode({'alg': 'none'})}.{encode({'sub': subject, 'iat': now + begin, 'exp': now + life})}."


class SaslCluster(ApacheCluster):
    """One node with three listeners for logins beside the plain one, the second of them over TLS.

    The sessions of the third end only with the token.
    """

    def __init__(self, authority: Authority, broker: Identity, session_ms: int = SESSION_MS) -> None:
        super().__init__(chosen().detail or None)
        self.sasl_port, self.tls_port, self.endless_port = ReservedPort(), ReservedPort(), ReservedPort()
        self.authority, self.broker, self.session_ms = authority, broker, session_ms

    @property
    def sasl_servers(self) -> str:
        return f"{self.sasl_port.host}:{self.sasl_port.number}"

    @property
    def tls_servers(self) -> str:
        return f"localhost:{self.tls_port.number}"

    @property
    def endless_servers(self) -> str:
        return f"{self.endless_port.host}:{self.endless_port.number}"

    def _close(self) -> None:
        super()._close()
        for port in (self.sasl_port, self.tls_port, self.endless_port):
            port.release()

    def _node_properties(self, node: Node, voters: str, data: Path) -> dict[str, str]:
        found = super()._node_properties(node, voters, data)
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.broker.keystore),
        }
        for name, servers, protocol, session_ms in (
            ("LOGIN", self.sasl_servers, "SASL_PLAINTEXT", self.session_ms),
            ("SECURE", self.tls_servers, "SASL_SSL", self.session_ms),
            ("ENDLESS", self.endless_servers, "SASL_PLAINTEXT", 0),
        ):
            for setting in ("listeners", "advertised.listeners"):
                found[setting] += f",{name}://{servers}"
            found["listener.security.protocol.map"] += f",{name}:{protocol}"
            found |= self._logins(f"listener.name.{name.lower()}", session_ms)
        return found

    @staticmethod
    def _logins(listener: str, session_ms: int) -> dict[str, str]:
        modules = "org.apache.kafka.common.security"
        return {
            f"{listener}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
            f"{listener}.plain.sasl.jaas.config": f'{modules}.plain.PlainLoginModule required user_alice="{PASSWORD}";',
            f"{listener}.scram-sha-256.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            f"{listener}.scram-sha-512.sasl.jaas.config": f"{modules}.scram.ScramLoginModule required;",
            f"{listener}.oauthbearer.sasl.jaas.config": (
                f'{modules}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
            ),
            f"{listener}.connections.max.reauth.ms": str(session_ms),
        }
