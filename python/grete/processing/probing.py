"""The probes of an App that runs in one process."""

import logging
import os
import weakref

from grete import _core
from grete.instrumentation.listening import listen, shown
from grete.instrumentation.monitor import Monitor
from grete.instrumentation.telling import tell

logger = logging.getLogger("grete")

# Those that answer, for a forked child to leave to its parent. One that is closed has nothing to leave.
_serving: "weakref.WeakSet[_core.Health]" = weakref.WeakSet()


def serve(health: _core.Health, address: tuple[str, int], monitor: Monitor | None) -> None:
    """Answers at all addresses of host and port until `health` is closed.

    ConfigError names the address and the cure.
    """
    listeners = listen(*address)
    try:
        health.serve([listener.fileno() for listener in listeners])
        addresses = [shown(listener.getsockname()) for listener in listeners]
    finally:
        for listener in listeners:
            listener.close()
    _serving.add(health)
    tell(
        monitor,
        logger,
        logging.INFO,
        "app.probes",
        "probes at %s",
        ", ".join(addresses),
        fields={"addresses": addresses},
    )


def _in_child() -> None:
    """Else the child would hold the port, and whoever connects would wait for it, after the parent has ended."""
    for health in _serving:
        health.leave_to_parent()
    _serving.clear()


os.register_at_fork(after_in_child=_in_child)
