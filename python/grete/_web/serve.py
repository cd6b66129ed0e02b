"""The web process: its parts, its port, and its end."""

import logging
import socket
from collections.abc import Callable, Collection, Mapping
from typing import Any

from grete._web.collector import Collector
from grete._web.kafka.commands import CommandSender
from grete._web.kafka.gateway import Gateway
from grete._web.kafka.letters import Replays
from grete._web.kafka.schemas import SchemaDecoder
from grete._web.security.access import Access
from grete._web.security.guard import is_loopback
from grete._web.security.masking import Masks
from grete._web.server.application import make_application
from grete._web.server.context import Parts
from grete._web.state.store import Store
from grete.errors import ConfigError

_BACKLOG = 256
_KEEP_ALIVE = 15
_MAX_CONNECTIONS = 256
_STOP_WITHIN = 5


def check_exposure(host: str, access: Access) -> None:
    """Refuses an address that others can reach, as long as no login is needed. Raises ConfigError."""
    if access.is_open and not is_loopback(host):
        raise ConfigError(
            f"others can reach {host}, and no login would be needed: give --users FILE (grete web password prints "
            "its lines), --proxy-header NAME with --trusted-proxy, or --oidc, or listen on 127.0.0.1",
            setting="host",
        )


def listen(host: str, port: int) -> socket.socket:
    """Returns a listening socket; port 0: a free one. Raises ConfigError."""
    try:
        family, *_, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        return socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except OSError as error:
        raise ConfigError(
            f"grete web cannot listen at {host}:{port}: {error.strerror or error}; name another port with --port",
            setting="port",
        ) from None


def serve(
    settings: Mapping[str, Any],
    listener: socket.socket,
    access: Access,
    hosts: Collection[str],
    *,
    on_start: Callable[[], None],
    secret: str = "",
    masks: Masks | None = None,
    schemas: SchemaDecoder | None = None,
) -> None:
    """Serves until SIGINT or SIGTERM. `settings`: those of Kafka. `hosts`: see `Guard`. `secret`: signs commands."""
    import uvicorn

    store = Store()
    collector, gateway = Collector(store, settings), Gateway(settings)
    replays = Replays(gateway)
    parts = Parts(store, gateway, collector, replays, CommandSender(gateway, secret), masks or Masks(), schemas)
    application = make_application(parts, access, hosts)
    config = uvicorn.Config(
        application,
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=True,
        proxy_headers=False,
        lifespan="off",
        limit_concurrency=_MAX_CONNECTIONS,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=_STOP_WITHIN,
        ws="none",
    )
    logging.getLogger("uvicorn").setLevel(logging.WARNING)
    collector.start()
    try:
        on_start()
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:
        pass  # uvicorn raises the signal again after a clean end
    finally:
        replays.close()
        collector.stop()
        gateway.close()
