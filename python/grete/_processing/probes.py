"""Probes of an App that runs in one process."""

import logging

from grete import _native
from grete.instrumentation.bind import bind_all, format_address
from grete.instrumentation.emit import log_and_emit
from grete.instrumentation.monitor import Monitor

logger = logging.getLogger("grete")


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
    log_and_emit(
        monitor,
        logger,
        logging.INFO,
        "app.probes",
        "probes at %s",
        ", ".join(addresses),
        fields={"addresses": addresses},
    )
