"""Address of a DogStatsD agent."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from grete.errors import ConfigError

PORT = 8125
# Bytes that fit an Ethernet frame with IPv6 and UDP headers, and some for tunnels; unix: read size of agents.
_UDP_BYTES = 1432
_UNIX_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Address:
    """Path of a Unix socket, or a host and a port."""

    path: str | None
    host: str = ""
    port: int = PORT

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def max_datagram_bytes(self) -> int:
        """Maximum bytes of a datagram."""
        return _UDP_BYTES if self.path is None else _UNIX_BYTES

    @property
    def needs_lookup(self) -> bool:
        """Whether the host is a name, whose resolution may take time."""
        if self.path is not None:
            return False
        try:
            ipaddress.ip_address(self.host.partition("%")[0])
        except ValueError:
            return True
        return False

    def open(self) -> socket.socket:
        """Opens a non-blocking socket for this address. OSError if the name cannot be resolved."""
        if self.path is not None:
            # Not connected: a restarted agent has another socket at the same path.
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            made.setblocking(False)
            return made
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)
        # "localhost" has both families, and agents listen on IPv4 at least.
        family, kind, protocol, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            # Connected, so that the kernel reports a port without a listener (ECONNREFUSED).
            made.connect(place)
        except BaseException:
            made.close()
            raise
        return made

    def send(self, through: socket.socket, datagram: bytes) -> None:
        """Sends a datagram through the socket of `open`; OSError if it cannot be sent at once."""
        if self.path is None:
            through.send(datagram)
        else:
            through.sendto(datagram, self.path)


def parse(text: str) -> Address:
    """Parses "HOST:PORT", "HOST", "udp://HOST:PORT" or "unix:///PATH". ConfigError for anything else."""
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "udp", text
    if scheme in ("unix", "unixgram"):
        if not rest.startswith("/"):
            raise _wrong(text)
        return Address(rest)
    if scheme == "unixstream":
        raise ConfigError(
            f'"{text}" is a stream, and Grete speaks to agents by datagrams: unixgram://{rest}, if the agent has one',
            setting="address",
        )
    try:
        parts = urlsplit(f"udp://{rest}")
        host, port = parts.hostname, parts.port
    except ValueError:
        raise _wrong(text) from None
    if scheme != "udp" or not host or port == 0 or parts.username is not None or parts.path or parts.query:
        raise _wrong(text)
    return Address(None, host, PORT if port is None else port)


def from_environment(environment: Mapping[str, str]) -> Address:
    """Reads the address like Datadog's own clients: DD_DOGSTATSD_URL, else DD_AGENT_HOST and DD_DOGSTATSD_PORT."""
    if url := environment.get("DD_DOGSTATSD_URL"):
        return parse(url)
    host = environment.get("DD_AGENT_HOST") or "localhost"
    return parse(f"{f'[{host}]' if ':' in host else host}:{environment.get('DD_DOGSTATSD_PORT') or PORT}")


def _wrong(text: str) -> ConfigError:
    return ConfigError(
        f'DogStatsD listens at "HOST:PORT" or "unix:///PATH/OF/SOCKET", not at "{text}"', setting="address"
    )
