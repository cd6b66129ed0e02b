"""Probes of an App that runs in one process."""

from grete import _native
from grete.instrumentation.bind import bind_all, format_address, report_addresses
from grete.instrumentation.monitor import Monitor


def serve_probes(health: _native.Health, address: tuple[str, int], monitor: Monitor | None) -> None:
    """Serves the probes at all addresses of host and port until `health` is closed.

    Raises ConfigError, which names the address and the cure.
    """
    listeners = bind_all(*address)
    try:
        health.serve([listener.fileno() for listener in listeners])
        addresses = [format_address(listener.getsockname()) for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
    report_addresses(monitor, "app.probes", address[0], addresses)
