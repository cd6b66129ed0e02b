"""Where an agent takes datagrams."""

import ipaddress
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit

from grete.errors import ConfigError

PORT = 8125
# What fits a frame of Ethernet with IPv6's and UDP's own bytes, and some for tunnels; unix: what agents read at once.
_UDP_BYTES = 1432
_UNIX_BYTES = 8192


@dataclass(frozen=True, slots=True)
class Address:
    """A path, or a host and a port."""

    path: str | None
    host: str = ""
    port: int = PORT

    def __str__(self) -> str:
        if self.path is not None:
            return f"unix://{self.path}"
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def limit(self) -> int:
        """Bytes that a datagram has at most."""
        return _UDP_BYTES if self.path is None else _UNIX_BYTES

    @property
    def is_name(self) -> bool:
        """Whether somebody has to be asked which address is meant, which may take its time."""
        if self.path is not None:
            return False
        try:
            ipaddress.ip_address(self.host.partition("%")[0])
        except ValueError:
            return True
        return False

    def open(self) -> socket.socket:
        """A socket that never waits and sends there. OSError if the name cannot be looked up."""
        if self.path is not None:
            # Not connected: an agent that has been started again has another socket there.
            made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
            made.setblocking(False)
            return made
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_DGRAM)
        # "localhost" is both, and agents listen on IPv4 at least.
        family, kind, protocol, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
        made = socket.socket(family, kind, protocol)
        try:
            made.setblocking(False)
            # Connected: then the kernel tells when nobody is there.
            made.connect(place)
        except BaseException:
            made.close()
            raise
        return made

    def send(self, through: socket.socket, datagram: bytes) -> None:
        """Sends it by the socket of `open`; OSError if it cannot be sent at once."""
        if self.path is None:
            through.send(datagram)
        else:
            through.sendto(datagram, self.path)


def parse(text: str) -> Address:
    """ "HOST:PORT", "HOST", "udp://HOST:PORT" or "unix:///PATH". ConfigError for others."""
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
    """As Datadog's own clients find it: DD_DOGSTATSD_URL, else DD_AGENT_HOST and DD_DOGSTATSD_PORT; this machine's."""
    if url := environment.get("DD_DOGSTATSD_URL"):
        return parse(url)
    host = environment.get("DD_AGENT_HOST") or "localhost"
    return parse(f"{f'[{host}]' if ':' in host else host}:{environment.get('DD_DOGSTATSD_PORT') or PORT}")


def _wrong(text: str) -> ConfigError:
    return ConfigError(
        f'DogStatsD listens at "HOST:PORT" or "unix:///PATH/OF/SOCKET", not at "{text}"', setting="address"
    )
