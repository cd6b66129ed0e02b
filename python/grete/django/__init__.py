"""Django: settings of an App from Django's settings, database connections around jobs, and `manage.py grete`.

```
INSTALLED_APPS = [..., "grete.django"]
GRETE = {"app": "shop.stream:app", "kafka": {"bootstrap.servers": "localhost:9092"}, "workers": 10}
```

```
app = grete.django.App("shop")  # in shop/stream.py

@app.consumer("orders")
def charge(order: Order) -> None:
    Invoice.objects.create(...)
```

`manage.py grete run` runs it.
"""

import asyncio
import os
from collections.abc import Mapping
from typing import Any, Unpack

from grete import app
from grete._lifecycle.hooks import Lifespan
from grete._process import callsite
from grete._routing.setting_types import AppSettings
from grete.errors import ConfigError
from grete.instrumentation import Event

# Name in `GRETE` of the App that `manage.py grete` runs.
_TARGET = "app"
# Events around calls of a consumer's hooks. Only the first one precedes its call.
_EVENTS = (
    "job.started",
    "job.finished",
    "consumer.initialized",
    "consumer.revoked",
    "consumer.shutdown",
    "consumer.tick",
    "consumer.eof",
)


class App(app.App):
    """App with the settings of `GRETE` in Django's settings, and with `close_connections` around its jobs.

    `GRETE` has the names of `grete.App`: "kafka" and Grete's own settings. Arguments have precedence over them.
    """

    def __init__(
        self,
        name: str,
        *,
        kafka: Mapping[str, Any] | None = None,
        lifespan: Lifespan | None = None,
        **settings: Unpack[AppSettings],
    ) -> None:
        """See `grete.App`. Raises ConfigError for wrong settings, ImproperlyConfigured before Django is set up."""
        ours = read_settings()
        ours.pop(_TARGET, None)
        shared = ours.pop("kafka", {})
        if not isinstance(shared, Mapping):
            raise ConfigError(
                f'settings.GRETE["kafka"] is a dict of Kafka\'s settings, not {shared!r}',
                setting="kafka",
                location=callsite.caller_location(),
            )
        super().__init__(name, kafka={**shared, **(kafka or {})}, lifespan=lifespan, **{**ours, **settings})
        close_connections_around_jobs(self)


def read_settings() -> dict[str, Any]:
    """Returns a copy of `GRETE` in Django's settings; {} without it. Raises ConfigError if it is no dict."""
    from django.conf import settings

    found = getattr(settings, "GRETE", {})
    if not isinstance(found, Mapping):
        raise ConfigError(
            f'settings.GRETE is a dict, like {{"app": "shop.stream:app", "kafka": {{...}}}}, not {found!r}',
            setting="GRETE",
        )
    return dict(found)


def close_connections_around_jobs(target: app.App) -> None:
    """Calls `close_connections` before and after each job of the App, as Django does around each request.

    `grete.django.App` does that by itself.
    """
    for name in _EVENTS:
        target.monitor.subscribe(name, _on_job)


def close_connections() -> None:
    """Closes database connections that are broken, or older than `CONN_MAX_AGE`; others stay open.

    A connection belongs to a thread. On an event loop, that is the thread in which Django runs the ORM for
    asynchronous code.
    """
    from django.db import close_old_connections

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        close_old_connections()
    else:
        from asgiref.sync import SyncToAsync

        SyncToAsync.single_thread_executor.submit(close_old_connections)


def close_all_before_fork() -> None:
    """Makes forks of this process close the idle database connections of the forking thread first.

    A child and its parent must not share a connection. Children of this process do without.
    """
    from django.db import connections

    pid = os.getpid()

    def close_all() -> None:
        if os.getpid() == pid:
            for connection in connections.all(initialized_only=True):
                if not connection.in_atomic_block:
                    connection.close()

    os.register_at_fork(before=close_all)


def _on_job(_event: Event) -> None:
    close_connections()
