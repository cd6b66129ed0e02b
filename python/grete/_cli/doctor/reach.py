"""Names and ports of brokers, by Python's own sockets: the native client has no error of its own for them."""

import ipaddress
import socket
import threading
import time


def split_address(address: str) -> tuple[str, int]:
    """Returns host and port of an address that the settings have checked."""
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def look_up(host: str, timeout: float) -> tuple[list[str], str | None]:
    """Returns the IP addresses of a name, or what is wrong with it. A thread asks, as the resolver has no timeout."""
    outcome: list[tuple[list[str], str | None]] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
            outcome.append((list(dict.fromkeys(str(one[4][0]) for one in found)), None))
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", None) or error
            problem = f"the name {host} has no address here ({reason}): correct the name, or this machine's DNS"
            outcome.append(([], problem))

    thread = threading.Thread(target=ask, name="grete-doctor-dns", daemon=True)
    thread.start()
    thread.join(timeout)
    if outcome:
        return outcome[0]
    return [], f"the DNS does not answer for {host} within {timeout:g} s: correct the DNS of this machine"


def connect(addresses: list[str], host: str, port: int, timeout: float) -> tuple[str | None, str | None]:
    """Returns the first of the IP addresses that takes a connection, or what is wrong with them."""
    end = time.monotonic() + timeout
    problem = None
    for number, address in enumerate(addresses):
        # Each address has its part of the time: the first one may be that of a network that is not routed here.
        left = max(0.05, (end - time.monotonic()) / (len(addresses) - number))
        try:
            socket.create_connection((address, port), timeout=left).close()
        except OverflowError:
            return None, f"{host} is advertised with the port {port}, which no server has: correct the port"
        except OSError as error:
            # Of several addresses, one that refuses says more than one that does not answer.
            if problem is None or isinstance(error, ConnectionRefusedError):
                problem = _problem(host, port, error, timeout)
        else:
            return address.partition("%")[0], None
    return None, problem


def _problem(host: str, port: int, error: OSError, timeout: float) -> str:
    shown = f"[{host}]:{port}" if _is_ipv6(host) else f"{host}:{port}"
    if isinstance(error, TimeoutError):
        cure = "open the port in the firewall, or correct the address"
        return f"{shown} does not answer within {timeout:g} s: {cure}"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing listens at {shown}: start the broker, or correct the port"
    return f"{shown} cannot be reached ({error.strerror or error}): correct the route or the address"


def _is_ipv6(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).version == 6
    except ValueError:
        return False
